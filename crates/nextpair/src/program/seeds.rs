//! Lists of seeds, as flags take them: `0..5`, or `0,1,7`.

/// A list of seeds.
#[derive(Clone)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse().map_err(|e| format!("'{text}': {e}"));
        if let Some((first, end)) = text.split_once("..") {
            let (first, end): (u64, u64) = (number(first)?, number(end)?);
            return match end.checked_sub(first) {
                Some(1..=100_000) => Ok(Seeds((first..end).collect())),
                _ => Err(format!("{text} is not a range of 1 to 100000 seeds")),
            };
        }
        text.split(',').map(number).collect::<Result<_, _>>().map(Seeds)
    }
}
