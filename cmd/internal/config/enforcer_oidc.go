package config

import (
	"net/url"
	"slices"

	"weir/internal/yamlfile"
)

// A ConsoleOIDC is an OpenID Connect provider with which people log in to the console.
type ConsoleOIDC struct {
	// Issuer is the provider's URL, exactly as the provider writes it in its tokens.
	Issuer string `yaml:"issuer"`
	// ClientID is the name of the console at the provider.
	ClientID string `yaml:"client_id"`
	// ClientSecretFile contains only the client's secret. Default: none, for a public client.
	ClientSecretFile string `yaml:"client_secret_file"`
	// Redirect is the URL to which the provider leads back: that of the console, with /console/login/callback.
	Redirect string `yaml:"redirect"`
	// Scopes are asked for. Default: [openid, email].
	Scopes Texts `yaml:"scopes"`
	// Claim is the claim of the identity token that read and write name values of: a text or a list of texts. An email
	// counts only if the provider has verified it. Default: groups.
	Claim string `yaml:"claim"`
	// Read are the values of the claim with which a person may read. Default: none.
	Read Texts `yaml:"read"`
	// Write are the values of the claim with which a person may read and act. Default: none.
	Write Texts `yaml:"write"`
}

const returnPath = "/console/login/callback"

// Validate checks the URLs, and that somebody may log in.
func (o *ConsoleOIDC) Validate(v yamlfile.Value) {
	if v.Null() {
		return
	}
	checkProviderURL(v.Key("issuer"), o.Issuer, "https://login.example.com")
	if o.ClientID == "" {
		v.Key("client_id").Faultf("write client_id: weir, as the provider has it", "there is no client_id")
	}
	example := "https://weir.example.com" + returnPath
	if u := checkProviderURL(v.Key("redirect"), o.Redirect, example); u != nil && (u.Path != returnPath || u.RawQuery != "" || u.ForceQuery) {
		v.Key("redirect").Faultf("write "+example+", with the console's own host", "%q is not the address that people return to", o.Redirect)
	}

	if len(o.Scopes) == 0 {
		o.Scopes = Texts{"openid", "email"}
	} else if !slices.Contains(o.Scopes, "openid") {
		v.Key("scopes").Faultf("add openid", "without the scope openid the provider sends no identity token")
	}
	if o.Claim == "" {
		o.Claim = "groups"
	}
	if len(o.Read) == 0 && len(o.Write) == 0 {
		v.Faultf("write read: [everyone] or write: [operators], with values of the claim "+o.Claim, "no one may log in")
	}
}

// checkProviderURL checks a URL that codes are sent to: encrypted, or on this machine.
func checkProviderURL(v yamlfile.Value, text, example string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		v.Faultf("write "+example, "%q is not such a URL", yamlfile.Clip(text))
	case u.Scheme == "http" && !loopbackHost(u.Host):
		v.Faultf("write https", "log-ins would be sent without encryption")
	default:
		return u
	}
	return nil
}
