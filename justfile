# The few verbs of this repository; `just` lists them.

_default:
    @just --list --unsorted

# What the compiler and the linters say.
check:
    .ci/fmt --check
    cargo clippy --locked --all-targets -- -D warnings

# What the compiler and the linters say of the code for macOS, on Linux.
check-darwin:
    .ci/darwin

# All tests, as root and as an ordinary user where possible; FILTER is a part of a test's name.
test *FILTER:
    tests/run {{ FILTER }}

# Only the tests that try to get out, each with its control.
escape:
    CCBOX_TEST_MUST_SANDBOX=1 tests/run escape

# Rewrite what is generated and checked in: goldens, man page, completions.
bless:
    INSTA_UPDATE=always CCBOX_BLESS=1 cargo test --test it

# Start-up, throughput, latency and memory against the budgets (as root; `--guard` allows twice the budgets).
bench *FLAGS:
    cargo bench --no-fail-fast --bench startup --bench scale --bench tunnel --bench load --bench memory --bench broker --bench reads -- {{ FLAGS }}

# The long tier: races, storms of kills, load.
soak *FILTER:
    tests/soak/run {{ FILTER }}

# Licences, sources and duplicate crates.
deny:
    PATH="$(.ci/tools):$PATH" cargo deny --offline check bans licenses sources

# The Debian package, in target/debian.
deb:
    PATH="$(.ci/tools):$PATH" packaging/build-deb

# Exactly what a change must pass.
ci:
    .ci/run
