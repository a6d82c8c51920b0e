package vectors

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// KeyLine is a line of the table of keys, which vectors/keys/README.md describes.
type KeyLine struct {
	// Op is hash, name, fleet or order.
	Op string `json:"op"`

	// Bytes are the key of a hash. Seed or Secret is what it is hashed with; with neither it is the
	// public seed.
	Bytes  Hex      `json:"bytes"`
	Seed   []uint64 `json:"seed"`
	Secret *Hex     `json:"secret"`
	Hash   uint64   `json:"hash"`

	// Address is that of a server, and Name is its name.
	Address string `json:"address"`
	Name    uint64 `json:"name"`

	// Clients says that the fleet is for clients, so that its keys have values.
	Clients    bool        `json:"clients"`
	Servers    []KeyServer `json:"servers"`
	Partitions uint16      `json:"partitions"`

	// Value is a request's value, Key its hash, and Order the places of its servers in the fleet.
	Value     string  `json:"value"`
	Key       uint64  `json:"key"`
	Partition *uint16 `json:"partition"`
	Order     []int   `json:"order"`
}

// KeyServer is a server of a fleet, with its number of parts.
type KeyServer struct {
	Address string
	Weight  uint32
}

// UnmarshalJSON reads a pair of an address and a weight.
func (s *KeyServer) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.Address, &s.Weight})
}

// Hex is bytes that are written as hexadecimal digits.
type Hex []byte

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) error {
	bytes, err := hex.DecodeString(string(text))
	*h = bytes
	return err
}

// KeyLines returns the lines of the table of keys.
func KeyLines() ([]KeyLine, error) {
	file, err := os.Open(KeyTable())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []KeyLine
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line KeyLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file.Name(), len(all)+1, err)
		}
		all = append(all, line)
	}
	return all, lines.Err()
}

// ClientKeys returns the addresses of the servers of the fleet that clients agree on, and the
// values of requests with the order of their servers.
func ClientKeys() (addresses []string, orders []KeyLine, err error) {
	lines, err := KeyLines()
	if err != nil {
		return nil, nil, err
	}
	for i := range lines {
		if !lines[i].Clients {
			continue
		}
		for _, server := range lines[i].Servers {
			addresses = append(addresses, server.Address)
		}
		orders = lines[i+1:]
	}
	if len(orders) == 0 {
		return nil, nil, fmt.Errorf("no fleet for clients in %s", KeyTable())
	}
	return addresses, orders, nil
}
