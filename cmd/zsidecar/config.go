package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the settings",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return usage(cmd, fmt.Errorf("no command given: check")) },
	}
	cmd.AddCommand(p.configCheckCommand())
	return cmd
}

func (p *program) configCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Print the settings in force and where each comes from",
		Long: "Read the settings as start does, with the same flags, file and environment, and print each one with its source. Secrets are\n" +
			"hidden. What is printed can be used as the [zsidecar] table of a file; a hidden password then needs a file of its own\n" +
			"(zebra_password_file). Nothing is opened and nothing is written.\n\n" +
			"It ends with 0 when start would take them, 1 when something is wrong in the file or the environment, 2 when a flag is.",
		Args: noArgs,
	}
	p.configFlag(cmd.Flags())
	config.AddFlags(cmd.Flags(), p.cacheDir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		values, warnings, err := config.Explain(p.sources(cmd))
		if err != nil && onlyFlags(err) {
			return usage(cmd, err)
		}
		for _, w := range warnings {
			fmt.Fprintln(p.stderr, "warning:", w)
		}
		if err != nil {
			return err
		}
		return printValues(p.stdout, values, asJSON)
	}
	return cmd
}

func printValues(w io.Writer, values []config.Value, asJSON bool) error {
	if asJSON {
		return printJSON(w, values)
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "[zsidecar]")
	for _, v := range values {
		comment := ""
		if v.Value == "" || v.Secret {
			comment = "# " // not a value that a file may hold
		}
		fmt.Fprintf(t, "%s%s\t= %s\t# %s\n", comment, v.Key, v.TOML(), v.Source)
	}
	return t.Flush()
}

func (p *program) generateConfigCommand() *cobra.Command {
	output := "-"
	if p.zaino() {
		output = zainoFiles(p.env)[0]
	}
	cmd := &cobra.Command{
		Use:   "generate-config",
		Short: "Write a file with every setting at its default",
		Long: "Write a TOML file with every setting at its default and what it means, as a start for one's own. Folders are made as needed.\n" +
			"A file that is there already and says something else is kept beside the new one, with .old at its end.",
		Args: noArgs,
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "`FILE` to write, - for standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text := config.Generate(config.Sources{Zaino: p.zaino(), CacheDir: p.cacheDir})
		if output == "-" {
			_, err := io.WriteString(p.stdout, text)
			return err
		}
		kept, err := writeKeeping(output, text)
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		fmt.Fprintf(p.stderr, "wrote %s\n", output)
		if kept != "" {
			fmt.Fprintf(p.stderr, "what was there is now %s\n", kept)
		}
		return nil
	}
	return cmd
}

// writeKeeping writes a file whose folder may not exist yet. Another text that was there is moved to the returned path.
func writeKeeping(path, text string) (kept string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	switch old, err := os.ReadFile(path); {
	case err == nil && string(old) == text:
		return "", nil
	case err == nil:
		kept = path + ".old"
		if err := os.Rename(path, kept); err != nil {
			return "", err
		}
	case !os.IsNotExist(err):
		return "", err
	}
	return kept, os.WriteFile(path, []byte(text), 0o644)
}
