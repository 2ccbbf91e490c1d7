//! Names of files that Windows gives another meaning.

/// Devices, which have these names in every folder, with any ending.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// Refuses what Windows cannot store under this name: one part of a path.
pub(super) fn check_for_windows(name: &str) -> Result<(), &'static str> {
    if name.contains(['<', '>', ':', '"', '|', '?', '*', '/', '\\'])
        || name.contains(char::is_control)
    {
        return Err("has a character that Windows refuses");
    }
    if name.ends_with(['.', ' ']) {
        return Err("ends with a dot or a space, which Windows drops");
    }
    if is_device(name) { Err("is a device on Windows") } else { Ok(()) }
}

/// Returns whether a name is a device: `nul`, `NUL.txt`, `com1 .log`.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let numbered = |port: &str| {
        let number =
            stem.get(..3).filter(|start| start.eq_ignore_ascii_case(port)).map(|_| &stem[3..]);
        matches!(
            number,
            Some("1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
        )
    };
    DEVICES.iter().any(|device| stem.eq_ignore_ascii_case(device))
        || numbered("COM")
        || numbered("LPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_refuses() {
        for name in [
            "nul",
            "NUL.txt",
            "con",
            "Aux.tar.gz",
            "com1",
            "COM9.log",
            "lpt³",
            "nul .txt",
            "conin$",
            "a:b",
            "a.jpg:stream",
            "what?",
            "a*",
            "a|b",
            "a\"b",
            "a\\b",
            "dot.",
            "space ",
            "...",
            "a\tb",
        ] {
            assert!(check_for_windows(name).is_err(), "{name:?}");
        }
        for name in [
            "a.jpg",
            "console",
            "nullable.txt",
            "com",
            "com0",
            "com10",
            "COMÉ",
            "é.png",
            ".hidden",
            "a b.jpg",
            "lptx",
            "日本",
        ] {
            assert_eq!(check_for_windows(name), Ok(()), "{name:?}");
        }
    }
}
