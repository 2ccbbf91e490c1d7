//! The names that a server answers to.

use std::net::IpAddr;

/// Returns whether a server at this address answers requests with this header `Host`. On loopback only names of
/// loopback are its own: another site may give this machine a name and then pass for the server (DNS rebinding).
/// Elsewhere the server cannot know its names.
pub fn answers_to(address: IpAddr, host: &str) -> bool {
    let name = without_port(host);
    let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    !address.is_loopback()
        || name.eq_ignore_ascii_case("localhost")
        || ip.is_ok_and(|ip| ip.is_loopback())
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports() {
        for (host, name) in
            [("localhost:80", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("a", "a")]
        {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn on_loopback_only_its_own_names_are_answered() {
        let loopback = "127.0.0.1".parse().unwrap();
        for host in ["localhost:7879", "LocalHost", "127.0.0.1:80", "127.1.2.3", "[::1]:80"] {
            assert!(answers_to(loopback, host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "192.168.0.1", "", "[::2]"] {
            assert!(!answers_to(loopback, host), "{host}");
            assert!(answers_to("0.0.0.0".parse().unwrap(), host), "{host}");
        }
    }
}
