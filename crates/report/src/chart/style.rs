//! The style of charts: colours by name, for light and dark mode.

/// Colours by name, for light and dark mode. Series use the colour-blind safe palette of Okabe and
/// Ito, darkened or lightened where contrast needs it. The baseline is grey.
const COLOURS: [(&str, &str, &str); 11] = [
    ("ink", "#222226", "#e8e8ea"),
    ("pale", "#65656f", "#a3a3ad"),
    ("paper", "#fafaf8", "#17171a"),
    ("line", "#e4e4e0", "#34343a"),
    ("s0", "#6b6b75", "#a9a9b3"),
    ("s1", "#0072b2", "#56b4e9"),
    ("s2", "#c8500a", "#f0874d"),
    ("s3", "#00845f", "#35c79c"),
    ("s4", "#a8528f", "#e08fc2"),
    ("s5", "#9a6b00", "#e6b23c"),
    ("s6", "#5a55b8", "#a9a4f5"),
];

/// Number of colours for series other than the baseline.
pub(crate) const OTHERS: usize = 6;

/// CSS rules that refer to colours by name.
pub(crate) const CHART: &str = "
.chart { display: block; width: 100%; height: auto; overflow: visible }
.chart text { fill: var(--ink); font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 11.5px }
.chart .paper { fill: var(--paper) }
.chart .title { font-size: 13px; font-weight: 600 }
.chart .tick, .chart .note { fill: var(--pale); font-size: 11px }
.chart .middle { text-anchor: middle } .chart .end { text-anchor: end }
.chart .grid { stroke: var(--line); stroke-width: 1 }
.chart .zero { stroke: var(--pale); stroke-width: 1 }
.chart .series { fill: none; stroke-width: 2; stroke-linejoin: round }
.chart .dashed { stroke-dasharray: 6 4 }
.chart .dotted { stroke-dasharray: 2 3 }
.chart .long { stroke-dasharray: 10 3 }
.chart .mixed { stroke-dasharray: 8 3 2 3 }
.chart .band { fill-opacity: .1; stroke-opacity: .45; stroke-width: .7 }
.chart .quiet { display: none }
.chart .seed { fill-opacity: .4; stroke: none }
.chart .range { stroke-width: 2; stroke-linecap: round }
.chart .marker { stroke: var(--paper); stroke-width: 1 }
.chart .dots { fill: none; stroke-linecap: round }
.chart .pool { stroke: var(--pale); stroke-opacity: .38; stroke-width: 2.4 }
.chart .picks { stroke-width: 3.6 }
.chart .frame { fill: none; stroke: var(--line); stroke-width: 1 }
.chart .l0 { stroke: var(--s0) } .chart .f0 { fill: var(--s0) }
.chart .l1 { stroke: var(--s1) } .chart .f1 { fill: var(--s1) }
.chart .l2 { stroke: var(--s2) } .chart .f2 { fill: var(--s2) }
.chart .l3 { stroke: var(--s3) } .chart .f3 { fill: var(--s3) }
.chart .l4 { stroke: var(--s4) } .chart .f4 { fill: var(--s4) }
.chart .l5 { stroke: var(--s5) } .chart .f5 { fill: var(--s5) }
.chart .l6 { stroke: var(--s6) } .chart .f6 { fill: var(--s6) }
";

/// Returns the colour of a series. Style 0 is the baseline.
pub(super) fn colour(style: usize) -> usize {
    match style {
        0 => 0,
        other => (other - 1) % OTHERS + 1,
    }
}

/// Returns the CSS classes of the line of a series.
pub(super) fn line(style: usize) -> String {
    let dashes = match style {
        0 => " dashed",
        other => ["", " dotted", " long", " mixed"][(other - 1) / OTHERS % 4],
    };
    format!("series l{}{dashes}", colour(style))
}

/// Returns the CSS variables of a page, for light and dark mode. Print has a white background.
pub(crate) fn variables() -> String {
    let all =
        |pick: fn(&(&str, &str, &str)) -> String| -> String { COLOURS.iter().map(pick).collect() };
    let day = all(|(name, day, _)| format!("--{name}: {day}; "));
    let night = all(|(name, _, night)| format!("--{name}: {night}; "));
    format!(
        ":root {{ {day}}}\n\
         @media screen and (prefers-color-scheme: dark) {{ :root {{ {night}}} }}\n\
         @media print {{ :root {{ {day}--paper: #fff; --card: #fff; color-scheme: light }} }}\n"
    )
}

/// Returns the rules with the light colours filled in, for standalone files.
pub(super) fn resolved() -> String {
    let put = |rules: String, (name, day, _): &(&str, &str, &str)| {
        rules.replace(&format!("var(--{name})"), day)
    };
    COLOURS.iter().fold(CHART.to_owned(), put).replace("'DejaVu Sans'", "DejaVu Sans")
}
