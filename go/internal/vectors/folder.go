package vectors

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FolderVariable is the environment variable that names the folder with the vectors.
const FolderVariable = "SLACKWATER_VECTORS"

// Files returns the files with vectors of policies, for a test whose package folder is two below
// the top of the repository. With guarded, they are those in which health is around the policy,
// otherwise those of the policies alone. The folder vectors of the repository is used unless
// [FolderVariable] names another. It is an error if there is no file.
func Files(guarded bool) ([]string, error) {
	return filesOf("policy", func(name string) bool {
		return strings.HasSuffix(name, "-guarded.jsonl") == guarded
	})
}

// keyTable is the file of keys that has no scenarios.
const keyTable = "hashes.jsonl"

// KeyFiles returns the files with vectors of policies with keys around them, like [Files].
func KeyFiles() ([]string, error) {
	return filesOf("keys", func(name string) bool { return name != keyTable })
}

// KeyTable returns the file with hashes of keys and orders of servers.
func KeyTable() string { return filepath.Join(folder(), "keys", keyTable) }

// ClusterPolicies returns the file with configurations of policies in clusters.
func ClusterPolicies() string {
	return filepath.Join(folder(), "cluster-policy", "configurations.json")
}

func folder() string {
	if folder := os.Getenv(FolderVariable); folder != "" {
		return folder
	}
	return filepath.Join("..", "..", "vectors")
}

func filesOf(kind string, isWanted func(name string) bool) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(folder(), kind, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("vectors in %s: %w", folder(), err)
	}
	files := slices.DeleteFunc(all, func(file string) bool { return !isWanted(filepath.Base(file)) })
	if len(files) == 0 {
		return nil, fmt.Errorf("no vectors in %s: run `cargo xtask vectors`, or set %s", folder(), FolderVariable)
	}
	return files, nil
}
