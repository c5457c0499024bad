# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ccbox_global_optspecs
    string join \n h/help V/version
end

function __fish_ccbox_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ccbox_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ccbox_using_subcommand
    set -l cmd (__fish_ccbox_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ccbox -n "__fish_ccbox_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_needs_command" -s V -l version -d 'Print version'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "run" -d 'Wrap one command (the main job)'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "shell" -d 'Run the user\'s shell inside'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "sh" -d 'Shell mode: /bin/sh inside, for programs that call a shell'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "explain" -d 'Print the resolved plan: layers, mounts, denies, hosts, environment, engine'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "profile" -d 'Print the backend\'s argument vector or profile only'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "check" -d 'Say whether a path or host is allowed, and by which rule'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "probe" -d 'Find out what this host can enforce, what is missing, and how to get it'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "init" -d 'Write a commented ccbox.toml into the current directory'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "trust" -d 'Record a project file\'s path, owner and hash: its grants count from now on'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "learn" -d 'Run a command and print the spec it needs'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "allow" -d 'Turn the denials of the last run into lines of a spec'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "caches" -d 'Private caches of earlier runs'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "connect" -d 'SOCKS connector for ssh\'s ProxyCommand (inside the sandbox)'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "completions" -d 'Print the completion script of a shell'
complete -c ccbox -n "__fish_ccbox_needs_command" -f -a "man" -d 'Print a man page (to be read with `man -l -`)'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s f -l spec -d 'Spec file; `-` is standard input. Repeatable: arrays append, later scalars win' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s p -l inline -d 'Inline spec (TOML)' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s n -l profile -d 'Built-in profile: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s D -l define -d 'Value of `${param:KEY}` in the spec' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l mode -d 'Mode: chat keeps grants as declared, the others make every grant read-only' -r -f -a "chat\t''
review\t''
plan\t''
orchestrate\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l backend -d 'Backend: auto prefers native' -r -f -a "auto\t''
native\t''
none\t''
microvm\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l engine -d 'Engine of the native backend on Linux' -r -f -a "auto\t''
bwrap\t''
builtin\t''
landlock\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l sandbox -d 'require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so' -r -f -a "require\t''
on\t''
off\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l rw -d 'Writable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l ro -d 'Readable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l deny-read -d 'Path that cannot be read' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l deny-write -d 'Path that cannot be written, in writable trees too' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l protect -d 'Path that is never writable, in any mode' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l allow-host -d 'Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l deny-host -d 'Host that may not be reached; beats every allow' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l env -d 'Set a variable for the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l pass-env -d 'Pass a variable (or `PREFIX_*`) that is dropped by default' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l chdir -d 'Working directory inside' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l session -d 'Name of the run: letters, digits, `.`, `_`, `-`, at most 64' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l events -d 'Write events as JSON lines to a file, or to an inherited descriptor: `fd:N`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l keep-fd -d 'Pass an inherited descriptor on to the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l no-network -d 'No network: every connection is refused and reported'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l trace -d 'Also report what cannot be read because it is not shown inside, or made on the host beside hidden files; every open for reading is watched, which makes it slower'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l dry-run -d 'Print the backend\'s command line, shell-quoted, and run nothing; environment, filter and proxies are not part of it'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -l capture -d 'Write the command\'s output as events instead: `stdout` and `stderr`, text or base64'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s q -l quiet -d 'No violation lines'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s v -l verbose -d 'Say what is enforced; twice: also the backend\'s argument vector'
complete -c ccbox -n "__fish_ccbox_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s f -l spec -d 'Spec file; `-` is standard input. Repeatable: arrays append, later scalars win' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s p -l inline -d 'Inline spec (TOML)' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s n -l profile -d 'Built-in profile: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s D -l define -d 'Value of `${param:KEY}` in the spec' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l mode -d 'Mode: chat keeps grants as declared, the others make every grant read-only' -r -f -a "chat\t''
review\t''
plan\t''
orchestrate\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l backend -d 'Backend: auto prefers native' -r -f -a "auto\t''
native\t''
none\t''
microvm\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l engine -d 'Engine of the native backend on Linux' -r -f -a "auto\t''
bwrap\t''
builtin\t''
landlock\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l sandbox -d 'require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so' -r -f -a "require\t''
on\t''
off\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l rw -d 'Writable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l ro -d 'Readable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l deny-read -d 'Path that cannot be read' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l deny-write -d 'Path that cannot be written, in writable trees too' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l protect -d 'Path that is never writable, in any mode' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l allow-host -d 'Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l deny-host -d 'Host that may not be reached; beats every allow' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l env -d 'Set a variable for the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l pass-env -d 'Pass a variable (or `PREFIX_*`) that is dropped by default' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l chdir -d 'Working directory inside' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l session -d 'Name of the run: letters, digits, `.`, `_`, `-`, at most 64' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l events -d 'Write events as JSON lines to a file, or to an inherited descriptor: `fd:N`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l keep-fd -d 'Pass an inherited descriptor on to the shell' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l no-network -d 'No network: every connection is refused and reported'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l trace -d 'Also report what cannot be read because it is not shown inside'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -l dry-run -d 'Print the backend\'s command line, shell-quoted, and run nothing'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s q -l quiet -d 'No violation lines'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s v -l verbose -d 'Say what is enforced; twice: also the backend\'s argument vector'
complete -c ccbox -n "__fish_ccbox_using_subcommand shell" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand sh" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -s f -l spec -d 'Spec file; `-` is standard input. Repeatable: arrays append, later scalars win' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -s p -l inline -d 'Inline spec (TOML)' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -s n -l profile -d 'Built-in profile: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -s D -l define -d 'Value of `${param:KEY}` in the spec' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l mode -d 'Mode: chat keeps grants as declared, the others make every grant read-only' -r -f -a "chat\t''
review\t''
plan\t''
orchestrate\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l backend -d 'Backend: auto prefers native' -r -f -a "auto\t''
native\t''
none\t''
microvm\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l engine -d 'Engine of the native backend on Linux' -r -f -a "auto\t''
bwrap\t''
builtin\t''
landlock\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l sandbox -d 'require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so' -r -f -a "require\t''
on\t''
off\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l rw -d 'Writable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l ro -d 'Readable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l deny-read -d 'Path that cannot be read' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l deny-write -d 'Path that cannot be written, in writable trees too' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l protect -d 'Path that is never writable, in any mode' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l allow-host -d 'Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l deny-host -d 'Host that may not be reached; beats every allow' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l env -d 'Set a variable for the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l pass-env -d 'Pass a variable (or `PREFIX_*`) that is dropped by default' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l chdir -d 'Working directory inside' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l session -d 'Name of the run: letters, digits, `.`, `_`, `-`, at most 64' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l no-network -d 'No network: every connection is refused and reported'
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -l json -d 'One JSON object'
complete -c ccbox -n "__fish_ccbox_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l format -d 'Which text' -r -f -a "seatbelt\t'The Seatbelt profile of macOS, on every system'
bwrap\t'The arguments of bubblewrap, one a line, shell-quoted'"
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -s f -l spec -d 'Spec file; `-` is standard input. Repeatable: arrays append, later scalars win' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -s p -l inline -d 'Inline spec (TOML)' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -s n -l profile -d 'Built-in profile: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -s D -l define -d 'Value of `${param:KEY}` in the spec' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l mode -d 'Mode: chat keeps grants as declared, the others make every grant read-only' -r -f -a "chat\t''
review\t''
plan\t''
orchestrate\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l backend -d 'Backend: auto prefers native' -r -f -a "auto\t''
native\t''
none\t''
microvm\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l engine -d 'Engine of the native backend on Linux' -r -f -a "auto\t''
bwrap\t''
builtin\t''
landlock\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l sandbox -d 'require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so' -r -f -a "require\t''
on\t''
off\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l rw -d 'Writable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l ro -d 'Readable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l deny-read -d 'Path that cannot be read' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l deny-write -d 'Path that cannot be written, in writable trees too' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l protect -d 'Path that is never writable, in any mode' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l allow-host -d 'Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l deny-host -d 'Host that may not be reached; beats every allow' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l env -d 'Set a variable for the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l pass-env -d 'Pass a variable (or `PREFIX_*`) that is dropped by default' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l chdir -d 'Working directory inside' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l session -d 'Name of the run: letters, digits, `.`, `_`, `-`, at most 64' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -l no-network -d 'No network: every connection is refused and reported'
complete -c ccbox -n "__fish_ccbox_using_subcommand profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -s f -l spec -d 'Spec file; `-` is standard input. Repeatable: arrays append, later scalars win' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -s p -l inline -d 'Inline spec (TOML)' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -s n -l profile -d 'Built-in profile: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -s D -l define -d 'Value of `${param:KEY}` in the spec' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l mode -d 'Mode: chat keeps grants as declared, the others make every grant read-only' -r -f -a "chat\t''
review\t''
plan\t''
orchestrate\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l backend -d 'Backend: auto prefers native' -r -f -a "auto\t''
native\t''
none\t''
microvm\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l engine -d 'Engine of the native backend on Linux' -r -f -a "auto\t''
bwrap\t''
builtin\t''
landlock\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l sandbox -d 'require: fail when no backend is available; on: wrap where possible and say where not; off: do not wrap, and say so' -r -f -a "require\t''
on\t''
off\t''"
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l rw -d 'Writable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l ro -d 'Readable tree' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l deny-read -d 'Path that cannot be read' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l deny-write -d 'Path that cannot be written, in writable trees too' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l protect -d 'Path that is never writable, in any mode' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l allow-host -d 'Host that may be reached: `example.com`, `*.example.com`, `example.com:8443`' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l deny-host -d 'Host that may not be reached; beats every allow' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l env -d 'Set a variable for the command' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l pass-env -d 'Pass a variable (or `PREFIX_*`) that is dropped by default' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l chdir -d 'Working directory inside' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l session -d 'Name of the run: letters, digits, `.`, `_`, `-`, at most 64' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -l no-network -d 'No network: every connection is refused and reported'
complete -c ccbox -n "__fish_ccbox_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand probe" -l json -d 'One JSON object'
complete -c ccbox -n "__fish_ccbox_using_subcommand probe" -l deep -d 'Also run a whole sandbox and measure its start'
complete -c ccbox -n "__fish_ccbox_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand init" -s n -l profile -d 'Built-in profile to start from: dispatch, dev, terminal, strict' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand trust" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -s D -l define -d 'Value of `${param:KEY}` in the user\'s configuration' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -l protect -d 'Path that stays closed for writing' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -l deny-read -d 'Path that stays closed for reading' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -l deny-host -d 'Host that stays closed' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -l write -d 'Write the spec to this new file instead of standard output' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand learn" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -l session -d 'The run of this name instead' -r
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -l write -d 'Add the lines to this file, with its comments kept; made where it is not there' -r -F
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -l last -d 'The last run with denials that was started in this directory'
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -l all -d 'All that can be allowed'
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -l force -d 'Secrets and files of the system as well'
complete -c ccbox -n "__fish_ccbox_using_subcommand allow" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand caches; and not __fish_seen_subcommand_from clear" -s h -l help -d 'Print help'
complete -c ccbox -n "__fish_ccbox_using_subcommand caches; and not __fish_seen_subcommand_from clear" -f -a "clear" -d 'Empty the private caches of the current user'
complete -c ccbox -n "__fish_ccbox_using_subcommand caches; and __fish_seen_subcommand_from clear" -s h -l help -d 'Print help'
complete -c ccbox -n "__fish_ccbox_using_subcommand connect" -s h -l help -d 'Print help'
complete -c ccbox -n "__fish_ccbox_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ccbox -n "__fish_ccbox_using_subcommand man" -s h -l help -d 'Print help'
