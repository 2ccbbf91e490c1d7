//! What goes wrong is said on standard error.

/// Says something. Where nobody listens any more, work goes on.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
