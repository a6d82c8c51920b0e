package vectors

import (
	"fmt"
	"os"
	"path/filepath"
)

// FolderVariable is the environment variable that names the folder with the vectors.
const FolderVariable = "SLACKWATER_VECTORS"

// Files returns the files with vectors of policies, for a test whose package folder is two below
// the top of the repository. With guarded, they are those in which health is around the policy,
// otherwise those of the policies alone. The folder vectors of the repository is used unless
// [FolderVariable] names another. It is an error if there is no file.
func Files(guarded bool) ([]string, error) {
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		folder = filepath.Join("..", "..", "vectors")
	}
	all, err := filepath.Glob(filepath.Join(folder, "policy", "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("vectors in %s: %w", folder, err)
	}
	var files []string
	for _, file := range all {
		if isGuarded, _ := filepath.Match("*-guarded.jsonl", filepath.Base(file)); isGuarded == guarded {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no vectors in %s: run `cargo xtask vectors`, or set %s", folder, FolderVariable)
	}
	return files, nil
}
