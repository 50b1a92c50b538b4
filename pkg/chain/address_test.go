package chain

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Addresses from public texts: ZIP 320's pair, and Zebra's own tests for the others.
const (
	zip320P2PKH = "t1VmmGiyjVNeCjxDZzg7vZmd99WyzVby9yC"
	zip320TEX   = "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte"
	mainP2SH    = "t3Vz22vK5z2LcKEdg16Yv4FFneEL1zg9ojd"
	testP2PKH   = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV"
	testP2SH    = "t27eWDgjFYJGVXmzrXeVjnb5J3uXDM9xH9v"
)

func TestTransparentAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text   string
		on     []Network
		script bool
	}{
		{zip320P2PKH, []Network{MainNetwork}, false},
		{mainP2SH, []Network{MainNetwork}, true},
		{testP2PKH, []Network{TestNetwork, RegtestNetwork}, false},
		{testP2SH, []Network{TestNetwork, RegtestNetwork}, true},
	} {
		for _, n := range test.on {
			a, err := ParseTransparent(n, test.text)
			if err != nil || a.Script != test.script {
				t.Errorf("%s on %s: %+v, %v", test.text, n, a, err)
			}
			if got := a.String(n); got != test.text {
				t.Errorf("%s on %s is written as %s", test.text, n, got)
			}
		}
	}
}

// The facts of ZIP 320, section "Reference Implementation": the two texts are the same address.
func TestTexAddress(t *testing.T) {
	t.Parallel()
	want, err := ParseTransparent(MainNetwork, zip320P2PKH)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(want.Hash[:]); got != "8286bf790866805397e3a947640b77a43f0b43a5" {
		t.Errorf("the hash is %s", got)
	}
	for _, text := range []string{zip320TEX, strings.ToUpper(zip320TEX)} {
		if got, err := ParseTransparent(MainNetwork, text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for prefix, on := range map[string][]Network{
		"tex": {MainNetwork}, "textest": {TestNetwork, RegtestNetwork}, "texregtest": {RegtestNetwork},
	} {
		text := encodeTex(prefix, want.Hash)
		for _, n := range []Network{MainNetwork, TestNetwork, RegtestNetwork} {
			got, err := ParseTransparent(n, text)
			valid := false
			for _, o := range on {
				valid = valid || o == n
			}
			if valid != (err == nil) || valid && got != want {
				t.Errorf("%s on %s: %+v, %v", text, n, got, err)
			}
		}
	}
	if got := encodeTex("tex", want.Hash); got != zip320TEX {
		t.Errorf("the test's own encoder writes %s", got)
	}
}

// encodeTex writes Bech32m by the text of BIP 350, polynomial division over all values at once.
func encodeTex(prefix string, hash [20]byte) string {
	var values []int
	for _, c := range prefix {
		values = append(values, int(c>>5))
	}
	values = append(values, 0)
	for _, c := range prefix {
		values = append(values, int(c&31))
	}
	start := len(values)
	for i := range 32 {
		v := 0
		for b := range 5 {
			at := 5*i + b
			v = v<<1 | int(hash[at/8]>>(7-at%8)&1)
		}
		values = append(values, v)
	}
	polymod := func(values []int) int {
		chk := 1
		for _, v := range values {
			b := chk >> 25
			chk = chk&0x1ffffff<<5 ^ v
			for i, g := range []int{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
				if b>>i&1 == 1 {
					chk ^= g
				}
			}
		}
		return chk
	}
	mod := polymod(append(append([]int(nil), values...), 0, 0, 0, 0, 0, 0)) ^ 0x2bc830a3
	text := prefix + "1"
	for _, v := range values[start:] {
		text += string(bech32Digits[v])
	}
	for i := range 6 {
		text += string(bech32Digits[mod>>(5*(5-i))&31])
	}
	return text
}

func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	const (
		sapling = "zs1z7rejlpsa98s2rrrfkwmaxu53e4ue0ulcrw0h4x5g8jl04tak0d3mm47vdtahatqrlkngh9slya"
		unified = "u1l8xunezsvhq8fgzfl7404m450nwnd76zshscn6nfys7vyz2ywyh4cc5daaq0c7q2su5lqfh23sp7fkf3kt27ve5948mzpfdvckzaect2jtte308mkwlycj2u0eac077wu70vqcetkxf"
	)
	flip := func(s string) string { // the last character, to another digit
		last := "2"
		if s[len(s)-1] == '2' {
			last = "3"
		}
		return s[:len(s)-1] + last
	}
	for _, test := range []struct {
		name    string
		network Network
		text    string
		want    string
	}{
		{"empty", MainNetwork, "", "it is empty"},
		{"P2PKH checksum", MainNetwork, flip(zip320P2PKH), "the checksum is wrong"},
		{"P2SH checksum", TestNetwork, flip(testP2SH), "the checksum is wrong"},
		{"TEX checksum", MainNetwork, flip(zip320TEX), "the checksum is wrong"},
		{"main on test", TestNetwork, zip320P2PKH, "it is an address of the main network, and this is test"},
		{"main on regtest", RegtestNetwork, mainP2SH, "it is an address of the main network, and this is regtest"},
		{"test on main", MainNetwork, testP2PKH, "it is an address of the test network, and this is main"},
		{"TEX of main on regtest", RegtestNetwork, zip320TEX, "it is an address of the main network, and this is regtest"},
		{"TEX of test on main", MainNetwork, encodeTex("textest", [20]byte{1}), "it is an address of the test network, and this is main"},
		{"TEX of regtest on test", TestNetwork, encodeTex("texregtest", [20]byte{1}), "it is an address of a regtest network, and this is test"},
		{"TEX of regtest on main", MainNetwork, encodeTex("texregtest", [20]byte{1}), "it is an address of a regtest network, and this is main"},
		{"TEX in mixed case", MainNetwork, "T" + zip320TEX[1:], "upper and lower case are mixed"},
		{"TEX too short", MainNetwork, zip320TEX[:20], "it does not hold the 20 bytes of a public key hash"},
		{"TEX bad digit", MainNetwork, "tex1b" + zip320TEX[5:], "it is no transparent address"},
		{"sapling", MainNetwork, sapling, "it is a shielded address, and only transparent ones are looked up here"},
		{"sprout", MainNetwork, "zcBqWB8VDjVER7uLKb4oHp2v54v2a1jKd9o4FY7mdgQ3gDfG8MiZLvdQga8JK3t58yjXGjQHzMzkGUxSguSs6ZzqpgTNiZG", "it is a shielded address, and only transparent ones are looked up here"},
		{"sapling of regtest", RegtestNetwork, "zregtestsapling1xl84", "it is a shielded address, and only transparent ones are looked up here"},
		{"unified", MainNetwork, unified, "it is a unified address: send the transparent address that it contains"},
		{"unified of regtest", RegtestNetwork, "uregtest1pszqlgxaf5w8", "it is a unified address: send the transparent address that it contains"},
		{"bitcoin", MainNetwork, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "it is no transparent address"},
		{"leading digit of zero", MainNetwork, "1" + zip320P2PKH, "it is no transparent address"},
		{"space", MainNetwork, " " + zip320P2PKH, "it is no transparent address"},
		{"digit that does not exist", MainNetwork, "t0" + zip320P2PKH[2:], "it is no transparent address"},
		{"overflow", MainNetwork, strings.Repeat("z", 36), "it is no transparent address"},
		{"half", MainNetwork, zip320P2PKH[:17], "it is no transparent address"},
		{"a megabyte", MainNetwork, strings.Repeat("t", 1<<20), "it is no transparent address"},
		{"not text", MainNetwork, "t1\xff\x00", "it is no transparent address"},
		{"other prefix", MainNetwork, encodeBase58Check(append([]byte{0x1c, 0xb9}, make([]byte, 20)...)), "it is no transparent address"},
	} {
		if a, err := ParseTransparent(test.network, test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s: %+v, %v; want the error %q", test.name, a, err, test.want)
		}
	}
}

func TestNetworkOf(t *testing.T) {
	t.Parallel()
	regtest, err := ParseHash("029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		genesis Hash
		want    Network
	}{
		{"main", Hash{1}, MainNetwork}, {"test", Hash{1}, TestNetwork}, {"test", regtest, RegtestNetwork},
	} {
		if got, err := NetworkOf(test.name, test.genesis); err != nil || got != test.want {
			t.Errorf("NetworkOf(%q, %s) = %s, %v; want %s", test.name, test.genesis, got, err, test.want)
		}
	}
	if _, err := NetworkOf("regtest", regtest); err == nil || err.Error() != `the node calls its chain "regtest", neither main nor test` {
		t.Errorf("an unknown chain: %v", err)
	}
}

// What parses is written back as Base58Check that parses to the same, and no input makes the parser panic.
func FuzzParseTransparent(f *testing.F) {
	for _, s := range []string{zip320P2PKH, zip320TEX, mainP2SH, testP2PKH, testP2SH, "tex1", "u1", "zs1", "", "1111"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		for _, n := range []Network{MainNetwork, TestNetwork, RegtestNetwork} {
			a, err := ParseTransparent(n, text)
			if err != nil {
				continue
			}
			written := a.String(n)
			if back, err := ParseTransparent(n, written); err != nil || back != a {
				t.Fatalf("%q on %s is %+v, written as %q, which is %+v, %v", text, n, a, written, back, err)
			}
			if !strings.HasPrefix(strings.ToLower(text), "tex") && written != text {
				t.Fatalf("%q on %s is written as %q", text, n, written)
			}
		}
	})
}
