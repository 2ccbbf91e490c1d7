//! Screens of `--help`.

/// What stands under a title, up to the next one.
fn section<'a>(screen: &'a str, title: &str) -> &'a str {
    let (_, below) =
        screen.split_once(&format!("\n{title}:\n")).unwrap_or_else(|| panic!("{title}: {screen}"));
    below.split("\n\n").next().unwrap()
}

#[test]
fn every_command_is_on_the_first_screen_and_few_are_in_groups() {
    let mut program = nextpair::program::command();
    let screen = program.render_help().to_string();
    let names = |title: &str| {
        let lines = section(&screen, title).lines().filter_map(|line| line.strip_prefix("  "));
        let names =
            lines.map(|line| line.split(' ').next().unwrap()).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect::<Vec<String>>()
    };
    let groups = ["Choose", "Data", "Train", "People", "Study"].map(names);
    let mut all = groups.concat();
    assert!(all.len() <= 16, "{all:?}");
    let behind = section(&screen, "And").trim().split(", ").map(str::to_owned);
    all.extend(behind);
    all.sort();
    // clap adds `help` in some builds.
    let known = program.get_subcommands().map(|one| one.get_name()).filter(|name| *name != "help");
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    assert_eq!(all, known);
    let first = screen.split("\nOptions:").next().unwrap();
    assert!(first.lines().all(|line| line.chars().count() <= 80), "{first}");
}

#[test]
fn flags_of_a_selection_are_in_sections() {
    let mut program = nextpair::program::command();
    let screen = program.find_subcommand_mut("select").unwrap().render_help().to_string();
    for (title, flags) in [
        ("Pool and pairs", &["--model", "--pool ", "--pool-side", "--ids", "--id-column"][..]),
        ("How many", &["--budget", "--spend", "--costs"]),
        ("Strategy", &["--strategy", "--top-k", "--scope", "--queries"]),
        ("What is left out", &["--usable", "--dedupe"]),
        ("Output", &["--out", "--html", "--tasks", "--explain", "--json"]),
    ] {
        for flag in flags {
            assert!(section(&screen, title).contains(&format!("      {flag}")), "{title} {flag}");
        }
    }
}
