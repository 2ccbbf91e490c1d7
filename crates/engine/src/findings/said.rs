//! Findings as names and sentences.

use super::Finding;

impl Finding {
    /// Its name, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Finding::NearChance { .. } => "near-chance",
            Finding::OtherSide => "other-side",
            Finding::Copies { .. } => "copies",
            Finding::PicksAlike { .. } => "picks-alike",
            Finding::PicksPaired { .. } => "picks-paired",
            Finding::Hubs { .. } => "hubs",
            Finding::PoolHit { .. } => "pool-hit",
            Finding::Strangers { .. } => "strangers",
            Finding::NoHit { .. } => "no-hit",
            Finding::NoGain { .. } => "no-gain",
            Finding::FalseNegatives { .. } => "false-negatives",
        }
    }

    /// A sentence without its full stop, with the names of items and pairs.
    pub fn text(&self, item: impl Fn(u32) -> String, pair: impl Fn(u32) -> String) -> String {
        match *self {
            Finding::NearChance { right, asked, by_chance } => format!(
                "the pairs hardly find each other: R@1 is {:.1} %, and chance is {:.1} % ({right} of \
                 {asked} halves asked about)",
                percent(right as f64, asked),
                percent(by_chance, asked)
            ),
            Finding::OtherSide => {
                "the pool looks like the other half of the pairs, not like the half it stands for"
                    .to_owned()
            }
            Finding::Copies { items, of, example: (copy, earlier) } => format!(
                "{items} of {of} pool items have the same numbers as an earlier one ({} as {})",
                item(copy),
                item(earlier)
            ),
            Finding::PicksAlike { picks, of, cosine, example: (pick, earlier) } => format!(
                "{picks} of {of} picks are nearly the same as an earlier one (cosine {cosine:.3} or \
                 more; {} and {})",
                item(pick),
                item(earlier)
            ),
            Finding::PicksPaired { picks, of, cosine, example: (pick, of_pair) } => format!(
                "{picks} of {of} picks are nearly the same as something paired (cosine {cosine:.3} or \
                 more; {} and pair {})",
                item(pick),
                pair(of_pair)
            ),
            Finding::Hubs { picks, of, example: (pick, hits), anchors } => format!(
                "{picks} of {of} picks hit at least half of the anchors ({} hits {hits} of \
                 {anchors}): such hubs are near to everything",
                item(pick)
            ),
            Finding::NoGain { picks, of } => format!(
                "{picks} of {of} picks tell nothing and only fill the budget: the items that are left do not vary, or are copies"
            ),
            Finding::PoolHit { hit, of, by_chance } => format!(
                "{hit} of {of} pool items have a hit ({:.0} %), and {:.0} % would if pairs were the pool: the model has \
                 learned its pairs by heart, the paired files are exchanged, or the pool is of another kind",
                percent(hit as f64, of),
                100.0 * by_chance
            ),
            Finding::Strangers { picks, of, in_pool } => format!(
                "{picks} of {of} picks look like nothing paired, and so does {:.0} % of the pool: people may not be able \
                 to caption them",
                100.0 * in_pool
            ),
            Finding::NoHit { picks, of } => format!(
                "{picks} of {of} picks have no hit: fewer items have one than the budget asks for"
            ),
            Finding::FalseNegatives { picks, of, by_chance, example: (pick, anchor) } => format!(
                "{picks} of {of} picks are at least as similar to an anchor as its own pair ({} and \
                 pair {}), {:.0} % by chance: the anchor may describe them too",
                item(pick),
                pair(anchor),
                100.0 * by_chance
            ),
        }
    }

    /// The same about the whole of a pool of which this is about a part: `kept` holds the places of the
    /// part.
    pub fn among(mut self, kept: &[u32]) -> Self {
        let place = |item: &mut u32| *item = kept[*item as usize];
        match &mut self {
            Finding::Copies { example: (one, other), .. }
            | Finding::PicksAlike { example: (one, other), .. } => {
                place(one);
                place(other);
            }
            Finding::PicksPaired { example: (item, _), .. }
            | Finding::Hubs { example: (item, _), .. }
            | Finding::FalseNegatives { example: (item, _), .. } => place(item),
            Finding::NearChance { .. }
            | Finding::OtherSide
            | Finding::PoolHit { .. }
            | Finding::Strangers { .. }
            | Finding::NoHit { .. }
            | Finding::NoGain { .. } => {}
        }
        self
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text(|item| format!("item {item}"), |pair| pair.to_string()))
    }
}

fn percent(count: f64, of: usize) -> f64 {
    100.0 * count / of.max(1) as f64
}
