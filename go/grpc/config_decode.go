package slackwatergrpc

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/slackwater/slackwater/go/policy"
)

// decoder decodes the value at a path. Its error names the path.
type decoder func(path string, text json.RawMessage) error

// fields are the known fields of an object.
type fields map[string]decoder

// decodeObject decodes the known fields of an object, in the order of their names, so that the
// first error is always the same one. A field that is null counts as absent, as in JSON of Protocol
// Buffers.
func decodeObject(path string, text json.RawMessage, known fields) error {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(text, &found); err != nil {
		if path == "" {
			path = "the configuration"
		}
		return fmt.Errorf("%s must be a JSON object; got %s", path, shorten(text))
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		field := name
		if path != "" {
			field = path + "." + name
		}
		decode, ok := known[name]
		if !ok {
			logger.Warningf("unknown field %q of the configuration is ignored", field)
			continue
		}
		if string(found[name]) == "null" {
			continue
		}
		if err := decode(field, found[name]); err != nil {
			return err
		}
	}
	return nil
}

// decodeWhole decodes a whole number in a range. It may be written as a double, such as 9000.0.
func decodeWhole(path string, text json.RawMessage, low, high uint16, into *uint16) error {
	var number float64
	if json.Unmarshal(text, &number) != nil || number != math.Trunc(number) ||
		number < float64(low) || number > float64(high) {
		return fmt.Errorf("%s must be a whole number from %d to %d; got %s",
			path, low, high, shorten(text))
	}
	*into = uint16(number)
	return nil
}

// settingsDecoder returns the decoder of a struct of settings: one field for each of the struct's,
// in camel case. Their ranges are checked later, by the policy's own check.
func settingsDecoder[S any](settings *S) decoder {
	return func(path string, text json.RawMessage) error {
		return decodeObject(path, text, settingFields(settings))
	}
}

// settingFields returns the fields of a struct of settings.
func settingFields[S any](settings *S) fields {
	known := fields{}
	all := reflect.ValueOf(settings).Elem()
	for i := range all.NumField() {
		known[fieldName(all.Type().Field(i).Name)] = settingDecoder(all.Field(i))
	}
	return known
}

func settingDecoder(into reflect.Value) decoder {
	return func(path string, text json.RawMessage) error {
		wrong := func(expected string) error {
			return fmt.Errorf("%s must be %s; got %s", path, expected, shorten(text))
		}
		switch into.Interface().(type) {
		case bool:
			var value bool
			if json.Unmarshal(text, &value) != nil {
				return wrong("true or false")
			}
			into.SetBool(value)
		case time.Duration:
			span, ok := decodeDuration(text)
			if !ok {
				return wrong(`a duration such as "0.050s"`)
			}
			into.SetInt(int64(span))
		case policy.Millionths:
			var value float64
			if json.Unmarshal(text, &value) != nil {
				return wrong("a number")
			}
			into.SetUint(outOfRangeIfNot(math.Round(value*float64(policy.One)), math.MaxUint32))
		default:
			var value float64
			if json.Unmarshal(text, &value) != nil || value != math.Trunc(value) {
				return wrong("a whole number")
			}
			into.SetUint(outOfRangeIfNot(value, float64(uint64(1)<<into.Type().Bits()-1)))
		}
		return nil
	}
}

// outOfRangeIfNot returns value, or most if value is not between 0 and most. No setting may be as
// high as its type allows, so the check of ranges then names the setting and its range.
func outOfRangeIfNot(value, most float64) uint64 {
	if value < 0 || value > most {
		value = most
	}
	return uint64(value)
}

// decodeDuration reads a duration as in JSON of Protocol Buffers ("0.050s"), or as Go writes it
// ("50ms").
func decodeDuration(text json.RawMessage) (time.Duration, bool) {
	var value string
	if json.Unmarshal(text, &value) != nil {
		return 0, false
	}
	span, err := time.ParseDuration(value)
	return span, err == nil
}

// fieldName turns ProbeRate into probeRate, and RIFLimitQuantile into rifLimitQuantile.
func fieldName(name string) string {
	runes := []rune(name)
	upper := 0
	for upper < len(runes) && unicode.IsUpper(runes[upper]) {
		upper++
	}
	// The last capital letter of several begins the next word.
	if upper > 1 && upper < len(runes) {
		upper--
	}
	return strings.ToLower(string(runes[:upper])) + string(runes[upper:])
}
