package provider

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Claims are what a token says of a person.
type claims struct {
	name   string   // the checked e-mail address, or the subject
	party  string   // the client that the token was issued to
	values []string // of the claim that grants rights
}

func readClaims(token *oidc.IDToken, claim string) (c claims, err error) {
	var all map[string]json.RawMessage
	if err := token.Claims(&all); err != nil {
		return c, err
	}
	text := func(name string) (value string) {
		_ = json.Unmarshal(all[name], &value) // anything else than a text is none
		return value
	}

	// Some providers write true as a text. An address that the provider has not checked is what the person has typed.
	checked := strings.Trim(string(all["email_verified"]), `"`) == "true"
	if c.name = text("email"); !checked || !strings.Contains(c.name, "@") {
		c.name = "oidc:" + token.Subject // no API key and no user of this machine has such a name by accident
	}
	if token.Subject == "" {
		return c, fmt.Errorf("it names no subject")
	}
	c.party = text("azp")

	switch one := text(claim); {
	case claim == "email" && !checked:
	case one != "":
		c.values = []string{one}
	default:
		_ = json.Unmarshal(all[claim], &c.values) // likewise: a list of texts or none
	}
	return c, nil
}
