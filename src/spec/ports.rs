//! Ports in `[network]`: those on which connections without a proxy are caught, and those of the caller's own proxies.

use toml::de::DeValue;

use super::SpecError;
use super::keys::Scalar;
use super::later::check_port;
use super::reader::Table;

const KEY: &str = "transparent_ports";
/// Their sockets travel in one packet.
const MAX_PORTS: usize = 100;

/// `http_proxy_port` and `socks_proxy_port`.
pub(super) fn proxy(net: &Table<'_>, key: &'static str) -> Result<Scalar<u16>, SpecError> {
    let (Some(number), Some(node)) = (net.count(key)?, net.get(key)) else {
        return Ok(None);
    };
    check_port(net.reader, key, node, number.value)?;
    Ok(u16::try_from(number.value)
        .ok()
        .map(|port| net.reader.ruled(node, port)))
}

/// Reads the list; duplicates count once.
pub(super) fn transparent(net: &Table<'_>) -> Result<Scalar<Vec<u16>>, SpecError> {
    let Some(node) = net.get(KEY) else {
        return Ok(None);
    };
    let mut ports: Vec<u16> = Vec::new();
    for item in net.items(KEY, "ports")? {
        let DeValue::Integer(number) = item.get_ref() else {
            return Err(net
                .reader
                .wrong_entry("network.transparent_ports", "a port", item));
        };
        // What does not fit is as wrong as port 0.
        let number =
            u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).unwrap_or(0);
        check_port(net.reader, KEY, item, number)?;
        let port = u16::try_from(number).unwrap_or(0);
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    if ports.len() > MAX_PORTS {
        let message = format!("`network.{KEY}` takes at most {MAX_PORTS} ports");
        return Err(net.reader.error(node.span(), message));
    }
    Ok(Some(net.reader.ruled(node, ports)))
}
