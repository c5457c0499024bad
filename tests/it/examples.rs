//! The examples do what they say, with the real binary. `first-run` builds the release and is a step of `.ci/run`.

use std::path::Path;
use std::process::{Command, Output};

use super::support::{CCBOX, program, require_sandbox};

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// A directory outside /tmp (the sandbox has its own there), with a home in it.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::create_dir(dir.path().join("home")).unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    dir
}

fn run(dir: &Path, argv: &[&str]) -> Output {
    let bin = Path::new(CCBOX).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    Command::new(program(argv[0]))
        .args(&argv[1..])
        .current_dir(dir.join("work"))
        .env("PATH", format!("{bin}:{path}"))
        .env("HOME", dir.join("home"))
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_makefile_builds_inside() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    for name in ["Makefile", "sandbox.toml", "hello.c"] {
        std::fs::copy(
            example("make").join(name),
            dir.path().join("work").join(name),
        )
        .unwrap();
    }
    let out = run(dir.path(), &["make", "-s", "-j2", "check"]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "hello from the sandbox\n");
    assert_eq!(text(&out.stderr), "");
    // The build could not have changed its own rules.
    let spec = dir.path().join("work/sandbox.toml");
    let out = run(
        dir.path(),
        &[
            "env",
            "ccbox",
            "run",
            "--spec",
            spec.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "echo x >> Makefile; echo x >> sandbox.toml; echo x >> fine",
        ],
    );
    assert!(out.status.success(), "{out:?}");
    for name in ["Makefile", "sandbox.toml"] {
        assert_eq!(
            std::fs::read(dir.path().join("work").join(name)).unwrap(),
            std::fs::read(example("make").join(name)).unwrap()
        );
    }
    assert!(dir.path().join("work/fine").exists());
}

#[test]
fn the_script_runs_inside_as_a_whole() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    let script = dir.path().join("work/script");
    std::fs::copy(example("script"), &script).unwrap();
    let out = run(dir.path(), &["env", script.to_str().unwrap()]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "inside: native\nhome is read-only\n");
    assert!(dir.path().join("work/out.txt").exists());
    assert!(!dir.path().join("home/outside.txt").exists());
}

#[test]
fn the_harness_reads_the_events() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    std::fs::create_dir_all(dir.path().join("home/.local/state/agent-runner/scratch")).unwrap();
    let work = dir.path().join("work");
    let workspace = format!("WORKSPACE={}", work.display());
    let command = "echo made > made; echo out ü; ccbox connect evil.example 443 < /dev/null > /dev/null 2>&1; exit 3";
    for (program, name) in [("python3", "harness.py"), ("node", "harness.mjs")] {
        let _ = std::fs::remove_file(work.join("made"));
        let call = |command: &str| {
            let (harness, spec) = (example(name), example("agent.toml"));
            let argv = [
                program,
                harness.to_str().unwrap(),
                spec.to_str().unwrap(),
                command,
                "-D",
                &workspace,
                "-D",
                "SESSION=conv-42",
            ];
            let out = run(dir.path(), &argv);
            assert!(out.status.success(), "{out:?}");
            text(&out.stdout)
        };
        assert_eq!(
            call(command),
            "out ü\n[exit 3]\n[denied network-outbound evil.example:443]\n[hint [network] allowed_domains = [\"evil.example\"]]\n[native destroyed]\n"
        );
        assert!(work.join("made").exists());
        assert_eq!(call("kill -9 $$"), "[killed signal]\n[native destroyed]\n");
        let missing = call("exec no-such-command-xyz");
        assert!(
            missing.contains("no-such-command-xyz")
                && missing.ends_with("[exit 127]\n[native destroyed]\n"),
            "{missing}"
        );
    }
}

/// A copy of examples in the workspace, beside a Makefile whose targets do something.
fn copied(dir: &Path, names: &[&str]) {
    let makefile = "test:\n\t@echo tested in $$CCBOX_BACKEND | tee out.txt\n\t@-echo x >deploy.sh\ntask:\n\t@echo $(OUT) >$(OUT)/result\n\t@-echo x >stray\n";
    std::fs::write(dir.join("work/Makefile"), makefile).unwrap();
    for name in names {
        let to = dir.join("work").join(Path::new(name).file_name().unwrap());
        std::fs::copy(example(name), to).unwrap();
    }
}

/// The documents of a YAML file.
fn yaml(name: &str) -> Vec<serde_json::Value> {
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)";
    let out = Command::new(program("python3"))
        .args(["-c", script])
        .arg(example(name))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Every `run` of the workflow but the installation, as the runner does it.
#[test]
fn the_workflow_for_github_tests_inside() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    copied(dir.path(), &["ci/ci.toml"]);
    let workflow = &yaml("ci/github-actions.yml")[0];
    let job = &workflow["jobs"]["test"];
    assert!(job["runs-on"].is_string());
    let mut ran = 0;
    for step in job["steps"].as_array().unwrap() {
        assert_ne!(step["run"].is_string(), step["uses"].is_string(), "{step}");
        let Some(line) = step["run"].as_str().filter(|l| !l.starts_with("sudo ")) else {
            continue;
        };
        let out = run(dir.path(), &["bash", "-eo", "pipefail", "-c", line]);
        assert!(out.status.success(), "{line}\n{out:?}");
        ran += 1;
    }
    assert_eq!(ran, 2);
    let work = dir.path().join("work");
    let made = std::fs::read_to_string(work.join("out.txt")).unwrap();
    assert_eq!(made, "tested in native\n");
    assert!(!work.join("deploy.sh").exists());
    let events = std::fs::read_to_string(work.join("events.jsonl")).unwrap();
    assert!(
        events.contains("deploy.sh") && events.contains("\"type\":\"exit\""),
        "{events}"
    );
}

/// The command of the pod with the rules of the map beside it. The places of the image are those of the test.
#[test]
fn the_job_for_kubernetes_holds_its_rules() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    copied(dir.path(), &[]);
    let work = dir.path().join("work");
    let [map, job] = &yaml("ci/kubernetes.yaml")[..] else {
        panic!("two documents")
    };
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        (&map["kind"], &job["kind"]),
        (&"ConfigMap".into(), &"Job".into())
    );
    assert_eq!(
        pod["volumes"][0]["configMap"]["name"],
        map["metadata"]["name"]
    );
    assert_eq!(
        pod["volumes"][0]["name"],
        container["volumeMounts"][0]["name"]
    );
    let rules = dir.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let here = |s: &str| {
        s.replace(mount, rules.to_str().unwrap()).replace(
            container["workingDir"].as_str().unwrap(),
            work.to_str().unwrap(),
        )
    };
    for (name, content) in map["data"].as_object().unwrap() {
        std::fs::write(rules.join(name), here(content.as_str().unwrap())).unwrap();
    }
    let argv: Vec<String> = container["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| here(w.as_str().unwrap()))
        .collect();
    let mut argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    argv.insert(0, "env");
    let out = run(dir.path(), &argv);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "tested in native\n");
    assert!(text(&out.stderr).contains("engine=landlock"), "{out:?}");
    // The same rules, and what they close.
    let spec = rules.join("job.toml");
    let spec = spec.to_str().unwrap();
    let script = "echo x >../outside; curl -s http://203.0.113.9/; echo x >inside";
    let out = run(
        dir.path(),
        &[
            "env", "ccbox", "run", "--spec", spec, "--", "sh", "-c", script,
        ],
    );
    assert!(out.status.success(), "{out:?}");
    assert!(work.join("inside").exists() && !dir.path().join("outside").exists());
}

/// As Slurm runs it: a copy of the script, the variables of an array, `srun` in front of the command.
#[test]
fn the_batch_script_runs_each_task_in_its_own_directory() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    copied(dir.path(), &["ci/slurm.sbatch", "ci/slurm.toml"]);
    let (work, bin) = (dir.path().join("work"), dir.path().join("bin"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("srun"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
    let options: Vec<String> = std::fs::read_to_string(example("ci/slurm.sbatch"))
        .unwrap()
        .lines()
        .filter_map(|l| l.strip_prefix("#SBATCH ").map(str::to_owned))
        .collect();
    assert!(
        options
            .iter()
            .all(|o| o.starts_with("--") && o.contains('=')),
        "{options:?}"
    );
    let script = format!(
        "chmod +x {0}/srun; PATH={0}:$PATH; export SLURM_SUBMIT_DIR=$PWD SLURM_ARRAY_TASK_ID\nfor SLURM_ARRAY_TASK_ID in 0 1; do bash slurm.sbatch || exit; done",
        bin.display()
    );
    let out = run(dir.path(), &["bash", "-c", &script]);
    assert!(out.status.success(), "{out:?}");
    for task in ["0", "1"] {
        let result = std::fs::read_to_string(work.join("out").join(task).join("result")).unwrap();
        assert_eq!(result, format!("out/{task}\n"));
    }
    assert!(!work.join("stray").exists(), "{out:?}");
}

#[test]
fn npm_runs_the_scripts_of_the_project_inside() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    copied(dir.path(), &["npm/package.json", "npm/.npmrc"]);
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(CCBOX, bin.join("ccbox-sh")).unwrap();
    let npm = |script: &str| {
        let line = format!(
            "PATH={}:$PATH npm run --silent --offline --no-update-notifier {script}",
            bin.display()
        );
        run(dir.path(), &["bash", "-c", &line])
    };
    let out = npm("build");
    assert!(out.status.success(), "{out:?}");
    let made = std::fs::read_to_string(dir.path().join("work/out.txt")).unwrap();
    assert_eq!(made, "built in native\n");
    let out = npm("escape");
    assert!(!out.status.success(), "{out:?}");
    assert!(!dir.path().join("home/outside.txt").exists());
}

#[test]
fn parallel_starts_a_sandbox_for_each_job() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    let names = ["a", "b with blanks", "c"];
    for (i, name) in names.iter().enumerate() {
        std::fs::write(dir.path().join("work").join(name), "x".repeat(i + 1)).unwrap();
    }
    std::fs::write(dir.path().join("home/notes"), "notes").unwrap();
    let script = example("parallel");
    let script = script.to_str().unwrap();
    let out = run(dir.path(), &["bash", script, names[0], names[1], names[2]]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "1 a\n2 b with blanks\n3 c\n");
    // Nothing but the directory can be read.
    let out = run(dir.path(), &["bash", script, "../home/notes"]);
    assert!(!out.status.success(), "{out:?}");
}

/// Every spec of the examples is read, with parameters where it wants them.
#[test]
fn every_spec_is_whole() {
    let dir = place();
    let work = dir.path().join("work");
    let work = work.to_str().unwrap();
    for name in [
        "agent.toml",
        "build.toml",
        "developer.toml",
        "ci/ci.toml",
        "ci/slurm.toml",
        "make/sandbox.toml",
    ] {
        let spec = std::fs::read_to_string(example(name)).unwrap();
        let path = dir.path().join("work/spec.toml");
        std::fs::write(&path, &spec).unwrap();
        let mut argv = vec!["env", "ccbox", "explain", "--spec", path.to_str().unwrap()];
        let workspace = format!("WORKSPACE={work}");
        for (key, value) in [
            ("WORKSPACE", workspace.as_str()),
            ("SESSION", "SESSION=x"),
            ("TASK", "TASK=0"),
        ] {
            if spec.contains(&format!("${{param:{key}}}")) {
                argv.extend(["-D", value]);
            }
        }
        for part in ["target", "out/0", "home/build-output"] {
            std::fs::create_dir_all(dir.path().join("work").join(part)).unwrap();
        }
        for part in [
            "build-output",
            "Documents/fixtures",
            ".local/state/agent-runner/scratch",
        ] {
            std::fs::create_dir_all(dir.path().join("home").join(part)).unwrap();
        }
        let out = run(dir.path(), &argv);
        assert!(out.status.success(), "{name}: {out:?}");
    }
}
