//! The names of parameters in published checkpoints, and our names for them.

/// Our name for a parameter called `theirs` in the releases of VSE++, SCAN or IMRAM.
///
/// VSE++ and SCAN keep one state dict per encoder. IMRAM keeps one for the whole model, with
/// prefixes for its parts and for `DataParallel`.
pub(super) fn ours(theirs: &str) -> Option<String> {
    let mut rest = theirs;
    for prefix in ["module.", "img_enc.", "txt_enc."] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let (layer, parameter) = rest.split_once('.')?;
    let layer = match layer {
        "fc" | "fc_local" => "img_fc",
        "embed" => "embed",
        "rnn" => "gru",
        "linear_t2i" => "mem_t2i.linear",
        "gate_t2i" => "mem_t2i.gate",
        "linear_i2t" => "mem_i2t.linear",
        "gate_i2t" => "mem_i2t.gate",
        _ => return None,
    };
    let ours = format!("{layer}.{parameter}");
    every().contains(&ours).then_some(ours)
}

/// The parameters that a model must have, given those it `has`: some come only together.
pub(super) fn required(has: impl Fn(&str) -> bool) -> Vec<String> {
    let any = |names: &[String]| names.iter().any(|name| has(name));
    let mut required = vec!["img_fc.bias".to_owned(), "embed.weight".to_owned()];
    required.extend(gru(""));
    match weight_norm() {
        factors if any(&factors) => required.extend(factors),
        _ => required.push("img_fc.weight".to_owned()),
    }
    for optional in [gru("_reverse"), memory()] {
        if any(&optional) {
            required.extend(optional);
        }
    }
    required
}

fn every() -> Vec<String> {
    let mut every = required(|_| true);
    every.push("img_fc.weight".to_owned());
    every
}

fn weight_norm() -> Vec<String> {
    ["weight_v", "weight_g"].map(|factor| format!("img_fc.{factor}")).into()
}

/// One layer of a direction; `direction` is empty for the forward one.
fn gru(direction: &str) -> Vec<String> {
    ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        .map(|parameter| format!("gru.{parameter}_l0{direction}"))
        .into()
}

/// Both memory units: the release has both in every mode.
fn memory() -> Vec<String> {
    let mut names = Vec::new();
    for unit in ["mem_t2i", "mem_i2t"] {
        for layer in ["linear", "gate"] {
            names.extend(["weight", "bias"].map(|name| format!("{unit}.{layer}.{name}")));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_names_have_ours() {
        for (theirs, expected) in [
            ("fc.weight", Some("img_fc.weight")),
            ("module.img_enc.fc_local.weight_g", Some("img_fc.weight_g")),
            ("txt_enc.rnn.bias_hh_l0_reverse", Some("gru.bias_hh_l0_reverse")),
            ("embed.weight", Some("embed.weight")),
            ("module.gate_i2t.bias", Some("mem_i2t.gate.bias")),
            ("rnn.weight_ih_l1", None),
            ("embed.bias", None),
            ("cnn.module.conv1.weight", None),
            ("fc", None),
            ("", None),
        ] {
            assert_eq!(ours(theirs).as_deref(), expected, "{theirs}");
        }
    }

    #[test]
    fn some_parameters_come_together() {
        assert_eq!(required(|_| false).len(), 7);
        assert_eq!(required(|name| name == "img_fc.weight_g").len(), 8);
        assert_eq!(required(|name| name == "gru.bias_ih_l0_reverse").len(), 11);
        assert_eq!(required(|name| name == "mem_t2i.gate.bias").len(), 15);
    }
}
