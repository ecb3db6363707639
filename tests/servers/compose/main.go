// Reads the Compose file of a folder as Docker Compose does, with the library that Docker Compose itself is built on, and
// prints what it comes to as JSON: variables filled in, env files read, services of all profiles. Docker is not needed.
//
//	compose FOLDER
//
// Variables come from FOLDER/.env alone, not from this process's environment.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FOLDER")
		os.Exit(2)
	}
	if err := show(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func show(folder string) error {
	options, err := cli.NewProjectOptions(
		[]string{filepath.Join(folder, "docker-compose.yml")},
		cli.WithWorkingDirectory(folder),
		cli.WithEnvFiles(filepath.Join(folder, ".env")),
		cli.WithDotEnv,
		cli.WithProfiles([]string{"*"}),
	)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	text, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}
