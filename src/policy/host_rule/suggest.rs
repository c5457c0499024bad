//! The spelling somebody probably meant. Only ever shown, never applied; every suggestion parses.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::HostRule;

/// ``write `…` ``, or nothing where no reading is likely.
pub(super) fn spelling(text: &str) -> Option<String> {
    let candidate = candidate(text.trim())?;
    if candidate == text || HostRule::compile(&candidate).is_err() {
        return None;
    }
    Some(format!("write `{candidate}`"))
}

fn candidate(text: &str) -> Option<String> {
    // An address range has no spelling here; its first address is not what was meant.
    if let Some((_, bits)) = text.rsplit_once('/')
        && !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    // scheme://user@host:port/path → host:port
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next()?;
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if rest.starts_with('[') {
        let (address, port) = rest.split_once(']')?;
        return Some(format!("{address}]{}", port_suffix(port)));
    }
    if rest.matches(':').count() > 1 {
        if let Some((address, port)) = rest.rsplit_once(':')
            && address.parse::<Ipv6Addr>().is_ok()
            && port.bytes().all(|b| b.is_ascii_digit())
        {
            return Some(format!("[{address}]:{port}"));
        }
        return Some(format!("[{rest}]"));
    }
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, port_suffix(&format!(":{port}"))),
        None => (rest, String::new()),
    };
    Some(format!("{}{port}", host_candidate(host)))
}

/// `:0443` → `:443`, `:*` and `:` → nothing.
fn port_suffix(port: &str) -> String {
    let digits = port.trim_start_matches(':').trim_start_matches('0');
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        String::new()
    } else {
        format!(":{digits}")
    }
}

fn host_candidate(host: &str) -> String {
    if let Some(v4) = inet_aton(host) {
        return v4.to_string();
    }
    let host = host.trim_start_matches('.');
    // The tail after the last label with a `*` in it: `a*.b.com`, `**.b.com`, `*.*.b.com` → `*.b.com`
    match host.rfind('*') {
        Some(star) => {
            let tail = host.get(star..).unwrap_or_default();
            match tail.split_once('.') {
                Some((_, parent)) if !parent.is_empty() => format!("*.{parent}"),
                _ => host.to_owned(),
            }
        }
        None => host.to_owned(),
    }
}

/// The address that inet_aton(3) reads, so that the user sees what the alias would have reached.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts = text
        .split('.')
        .map(|part| {
            let lower = part.to_ascii_lowercase();
            if let Some(hex) = lower.strip_prefix("0x") {
                u32::from_str_radix(hex, 16).ok()
            } else if lower.len() > 1 && lower.starts_with('0') {
                u32::from_str_radix(&lower, 8).ok()
            } else {
                lower.parse().ok()
            }
        })
        .collect::<Option<Vec<u32>>>()?;
    let (last, head) = parts.split_last()?;
    if head.len() > 3 || head.iter().any(|p| *p > 255) {
        return None;
    }
    let free_bits = 8 * (4 - u32::try_from(head.len()).ok()?);
    if free_bits < 32 && *last >= 1 << free_bits {
        return None;
    }
    let high = head.iter().fold(0_u32, |acc, p| (acc << 8) | p);
    let high = high.checked_shl(free_bits).unwrap_or(0);
    Some(Ipv4Addr::from(high | last))
}
