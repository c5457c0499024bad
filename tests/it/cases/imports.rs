//! Settings of other tools in the place of a spec.

use super::cases;

/// CF-3: settings in use cannot be changed from inside, and hold what they say; called by a link named `srt`.
#[test]
fn settings_in_use_are_protected() {
    for c in cases() {
        let script = "ln -s \"$(command -v ccbox)\" srt; mkdir ws/src; echo K > ws/.token; echo K > ws/keep
            echo '{\"network\": {\"allowedDomains\": []}, \"filesystem\": {\"allowWrite\": [\".\"], \"denyWrite\": [\"keep\"], \"denyRead\": [\".token\"]}}' > ws/s.json
            cd ws; sha256sum s.json > ../s
            ../srt -s s.json -c 'echo x >> s.json; mv s.json b; rm -f s.json; cp /dev/null s.json; cat .token; echo e > keep; echo e > src/made; true' 2> /dev/null; echo $?
            ../srt -s s.json sh -c 'exit 7'; echo $?
            sha256sum -c --quiet ../s && cat keep src/made; echo x >> s.json; sha256sum -c --quiet ../s > /dev/null 2>&1 || echo control";
        c.steps(script).prints("0\n7\nK\ne\ncontrol\n");
    }
}

/// CF-1 in another language: a slip starts nothing, and says where.
#[test]
fn a_slip_in_settings_starts_nothing() {
    for c in cases() {
        for (text, words) in [
            (
                "{\"network\": {\"alowedDomains\": []}}",
                ["spec.toml:1:14", "allowedDomains"],
            ),
            (
                "{\"sandbox\": {\n\"filesystem\": {\"denyread\": [\"x\"]}}}",
                ["spec.toml:2:16", "denyRead"],
            ),
            (
                "{\"permissions\": {\"deny\": [\"Read(x\"]}}",
                ["spec.toml:1:27", "is no rule"],
            ),
            ("{\"network\": {}", ["spec.toml:1:15", "not JSON"]),
        ] {
            c.raw_spec(text);
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&words);
        }
    }
}

/// The whole plan, as a spec written by hand gives it: the same mounts in the same order, and the same hosts.
#[test]
fn settings_and_the_spec_that_says_the_same_are_one_plan() {
    for c in cases() {
        let script = "mkdir -p ws/.claude ws/out cache; cd ws
            echo '{\"network\": {\"allowedDomains\": [\"a.example\"]}, \"filesystem\": {\"allowWrite\": [\".\", \"'$T'/cache\"], \"denyWrite\": [\"lock\"], \"denyRead\": [\"~/.x\", \"secret\"]}}' > ../a.json
            printf '[filesystem]\\nview = \"host\"\\nallow_write = [\"ws\", \"cache\"]\\ndeny_write = [\"./ws/lock\"]\\ndeny_read = [\"~/.x\", \"ws/secret\"]\\n[network]\\nbaseline = false\\nallowed_domains = [\"a.example\"]\\n' > ../a.toml
            show() { ccbox explain --json -f ../a.$1 -- true | sed \"s#a\\.$1:[0-9]*#FILE#g; s#a\\.$1#FILE#g\" | grep -v '\"note\"'; }
            show json > ../1; show toml > ../2; grep -c mounts ../1; diff ../1 ../2 && echo same";
        c.steps(script).prints("1\nsame\n");
    }
}
