package yamlfile

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (v Value) intoScalar(target reflect.Value) {
	switch target.Kind() {
	case reflect.String:
		target.SetString(v.Text())
	case reflect.Bool:
		v.intoBool(target)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if text, ok := v.number("a whole number"); ok {
			n, err := strconv.ParseInt(text, 10, target.Type().Bits())
			v.checkNumber(err)
			target.SetInt(n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if text, ok := v.number("a whole number"); ok {
			n, err := strconv.ParseUint(text, 10, target.Type().Bits())
			v.checkNumber(err)
			target.SetUint(n)
		}
	case reflect.Float32, reflect.Float64:
		if text, ok := v.number("a number"); ok {
			n, err := strconv.ParseFloat(text, target.Type().Bits())
			v.checkNumber(err)
			target.SetFloat(n)
		}
	default:
		panic("yamlfile: " + target.Type().String() + " cannot be read")
	}
}

func (v Value) intoBool(target reflect.Value) {
	text, ok := v.Scalar()
	switch {
	case ok && !v.Quoted() && text == "true":
		target.SetBool(true)
	case ok && !v.Quoted() && text == "false":
		target.SetBool(false)
	default:
		v.Faultf("write true or false", "%s where a boolean is expected", v.Found())
	}
}

// number returns the text of a number without the underscores that group its digits.
func (v Value) number(wanted string) (string, bool) {
	text, ok := v.Scalar()
	// A variable in quotes may be a number: its text differs from what stands in the file.
	if !ok || (v.Quoted() && text == v.node.Value) {
		remedy := ""
		if ok {
			remedy = "write it without quotes"
		}
		v.Faultf(remedy, "%s where %s is expected", v.Found(), wanted)
		return "", false
	}
	return strings.ReplaceAll(text, "_", ""), true
}

func (v Value) checkNumber(err error) {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), strconv.ErrRange.Error()):
		v.Faultf("", "%s is out of range", v.node.Value)
	default:
		v.Faultf("", "%s where a number is expected", v.Found())
	}
}

// notText returns the remedy for a value that is not text; it is empty for text.
func (v Value) notText() string {
	if v.EndsInColon() {
		return "YAML reads a colon at the end as a key: put the value in quotes"
	}
	if v.node.Kind != yaml.ScalarNode {
		return "write one value"
	}
	if v.Null() {
		return "write a value, or leave the key out"
	}
	if v.Quoted() {
		return ""
	}

	switch tag := v.node.ShortTag(); {
	case tag == "!!int", tag == "!!float", tag == "!!bool", tag == "!!timestamp", yamlOneBoolean[strings.ToLower(v.node.Value)]:
		return "put it in quotes: " + strconv.Quote(v.node.Value)
	case strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!"):
		return "YAML reads a word that begins with ! as a tag: " + quoteIt + single(tag+" "+v.node.Value)
	case tag != "!!str":
		return "leave out " + tag
	}

	return ""
}

// yamlOneBoolean are the words that YAML 1.1, which many programs still read, treats as booleans.
var yamlOneBoolean = map[string]bool{"yes": true, "no": true, "on": true, "off": true}

// EndsInColon reports that YAML made a map of a value that ends in a colon, such as fe80::.
func (v Value) EndsInColon() bool {
	n := v.node
	return n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Kind == yaml.ScalarNode && n.Content[1].ShortTag() == "!!null" &&
		n.Content[1].Value == ""
}
