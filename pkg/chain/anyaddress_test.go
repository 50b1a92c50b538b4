package chain

import (
	"errors"
	"strings"
	"testing"
)

// Addresses of every kind that is in use are taken; with one character changed, or one away, none is.
func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs", "t3Vz22vK5z2LcKEdg16Yv4FFneEL1zg9ojd",
		"tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV", "t2SRyAR26tXTnZHfpa3jPqeyYmxCbAZxUnh",
		"tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte", "texregtest1vk37d06xel8t7kjvl6htu8js0y6fhkqjnerx00",
		"zregtestsapling1xl84ekz6stprmvrp39s77mf9t953nqjndwlcjtzfrr3cgjjez87639xm4u9pfuvylrhecx0c2j8",
		"uregtest1pszqlgxaf5w8mu2yd9uygg8cswp0ec4f7eejqnqc35tztw4tk0sxnt3pym2f3s2872cy2ruuc5n8y9cen5q6ngzlmzu8ztrjesv8zm9j",
	} {
		if err := CheckAddress(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			other := "q"
			if text[i] == 'q' {
				other = "p"
			}
			for _, changed := range []string{text[:i] + other + text[i+1:], text[:i] + text[i+1:]} {
				if err := CheckAddress(changed); err == nil {
					t.Errorf("%s is taken", changed)
				}
			}
		}
	}
	for text, want := range map[string]error{
		"": errNoKnownAddress, "x": errNoKnownAddress, "u1": errNoKnownAddress, "u1qqqqqq": errNoKnownAddress, "zs1b": errNoKnownAddress,
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":    errNoKnownAddress, // of Bitcoin
		"Tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte":    errMixedCase,
		"tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgtf":    errChecksum,
		"t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbt":           errChecksum,
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":            errNoKnownAddress, // of Bitcoin
		strings.Repeat("1", 10_000):                     errNoKnownAddress,
		"utest1" + strings.Repeat("q", 300):             errChecksum,
		"ztestsapling1" + strings.Repeat("é", 40):       errNoKnownAddress,
		"uregtest1PSZQLGXAF5W8MU2YD9UYGG8CSWP0EC4F7EEJ": errMixedCase,
	} {
		if err := CheckAddress(text); !errors.Is(err, want) {
			t.Errorf("%.50q: got %v, want %v", text, err, want)
		}
	}
}
