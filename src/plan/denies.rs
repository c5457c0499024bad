//! Denies of the layers: protected_paths, deny_write, deny_read, and the files ccbox itself reads.

use std::path::Path;

use super::context::Ctx;
use super::other_runs;
use super::rules::{Grant, Hide, Named, Never, Strength, built_in};
use super::sockets;
use super::spellings::Spellings;
use crate::policy::{Layer, Origin};

/// Write-denies and read-denies of the layers and of ccbox itself.
pub(super) fn collect(ctx: Ctx<'_>, grants: &[Grant]) -> (Vec<Never>, Vec<Hide>) {
    let mut spellings = Spellings::new(ctx, grants);
    (
        nevers(ctx, grants, &mut spellings),
        hides(ctx, &mut spellings),
    )
}

fn nevers(ctx: Ctx<'_>, grants: &[Grant], spellings: &mut Spellings<'_>) -> Vec<Never> {
    let fs = &ctx.policy.fs;
    let mut out = Vec::new();
    for (key, list, strength) in [
        ("protected_paths", &fs.protected, Strength::Protected),
        ("deny_write", &fs.deny_write, Strength::DenyWrite),
    ] {
        for entry in list {
            // Patterns are the broker's (`names`).
            let Some(path) = entry.value.exact() else {
                continue;
            };
            let named = Named::new(key, path, &entry.origin);
            for spelled in std::iter::once(path.to_path_buf()).chain(spellings.others(path)) {
                out.push(Never {
                    walk: ctx.walk(&spelled),
                    except: Vec::new(),
                    strength,
                    named: named.clone(),
                });
            }
        }
    }
    out.extend(sockets::nevers(ctx, grants));
    for file in &fs.own_files {
        out.push(own(ctx, &file.value, "file of ccbox", &file.origin));
    }
    let origin = built_in("own files");
    out.push(own(ctx, &ctx.host.state_dir, "state of ccbox", &origin));
    out.push(own(
        ctx,
        &ctx.host.config_dir,
        "configuration of ccbox",
        &origin,
    ));
    if let Some(meeting) = other_runs::common(ctx).filter(|_| ctx.has_broker()) {
        out.push(own(ctx, &meeting, "lock of ccbox", &origin));
    }
    out
}

fn own(ctx: Ctx<'_>, path: &Path, words: &str, origin: &Origin) -> Never {
    Never {
        walk: ctx.walk(path),
        except: Vec::new(),
        strength: Strength::Own,
        named: Named::new(words, path, origin),
    }
}

fn hides(ctx: Ctx<'_>, spellings: &mut Spellings<'_>) -> Vec<Hide> {
    let mut out = Vec::new();
    for entry in &ctx.policy.fs.deny_read {
        // Patterns are judged when something is opened (`reads`).
        let Some(path) = entry.value.exact() else {
            continue;
        };
        let named = Named::new("deny_read", path, &entry.origin);
        for spelled in std::iter::once(path.to_path_buf()).chain(spellings.others(path)) {
            out.push(Hide {
                walk: ctx.walk(&spelled),
                named: named.clone(),
                liftable: matches!(entry.origin.layer, Layer::Profile(_)),
            });
        }
    }
    out
}
