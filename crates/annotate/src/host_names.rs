//! The names that a server answers to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether a server at this address answers requests with this header `Host`. On loopback only names of
/// loopback are its own: another site may give this machine a name and then pass for the server (DNS rebinding).
/// Elsewhere the server cannot know its names.
pub fn answers_to(address: IpAddr, host: &str) -> bool {
    let is_loopback = |name: &str| {
        let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let ip = match v6 {
            Some(v6) => v6.parse::<Ipv6Addr>().map(IpAddr::V6),
            None => name.parse::<Ipv4Addr>().map(IpAddr::V4),
        };
        name.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
    };
    !address.is_loopback() || without_port(host).is_some_and(is_loopback)
}

/// The name of a host without its port, if it is one: `NAME`, `NAME:PORT`, `[V6]` or `[V6]:PORT`.
pub(crate) fn without_port(host: &str) -> Option<&str> {
    let end = match host.starts_with('[') {
        true => host.find(']')? + 1,
        false => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (is_whole && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports() {
        for (host, name) in [
            ("localhost:80", Some("localhost")),
            ("[::1]:80", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("a", Some("a")),
            ("a:", Some("a")),
            ("", None),
            (":80", None),
            ("[::1", None),
            ("[::1].evil.com", None),
            ("[::1]:80junk", None),
            ("[::1]evil:80", None),
            ("localhost:80:80", None),
            ("localhost:evil.com", None),
            ("127.0.0.1:-1", None),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }

    #[test]
    fn on_loopback_only_its_own_names_are_answered() {
        let loopback = "127.0.0.1".parse().unwrap();
        for host in ["localhost:7879", "LocalHost", "127.0.0.1:80", "127.1.2.3", "[::1]:80"] {
            assert!(answers_to(loopback, host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:80",
            "192.168.0.1",
            "",
            "[::2]",
            "::1",
            "[::1].evil.com",
            "[::1].evil.com:80",
            "[::1]:80junk",
            "[::1]@evil.com",
            "[127.0.0.1]",
            "[[::1]]",
            "127.0.0.1]",
            "localhost:evil.com",
            "localhost:80@evil.com",
        ] {
            assert!(!answers_to(loopback, host), "{host}");
            assert!(answers_to("0.0.0.0".parse().unwrap(), host), "{host}");
        }
    }
}
