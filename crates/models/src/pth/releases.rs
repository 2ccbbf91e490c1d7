//! The releases of the models that the paper cites: the names of their layers, and ours.
//!
//! Names begin with `img_enc.`, `txt_enc.` or `sim_enc.` here, as they do where a release keeps one state dict for
//! the whole model. Those of one state dict per encoder are completed ([`whole_name`]).

/// A release.
#[derive(Debug)]
pub(super) struct Release {
    /// Its family, as [`Config::from_published`](crate::Config::from_published) calls it.
    pub(super) family: &'static str,
    /// The beginning of names that no other release has.
    sign: &'static str,
    /// Beginnings of names, and ours.
    layers: &'static [(&'static str, &'static str)],
    /// Beginnings of names that are no part of the model here.
    left_out: &'static [&'static str],
    /// Parts of what follows, and ours.
    parts: &'static [(&'static str, &'static str)],
}

/// All of them. A new one is an entry.
const RELEASES: [Release; 6] = [
    Release {
        family: "VSE_INF",
        sign: "img_enc.gpool.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("img_enc.mlp.layers.0", "img_mlp.0"),
            ("img_enc.mlp.layers.1", "img_mlp.1"),
            ("img_enc.mlp.bns.0", "img_mlp.bn0"),
            ("img_enc.mlp.bns.1", "img_mlp.bn1"),
            ("img_enc.gpool", "img_gpo"),
            ("txt_enc.embed", "embed"),
            ("txt_enc.rnn", "gru"),
            ("txt_enc.gpool", "txt_gpo"),
        ],
        left_out: &[],
        parts: &[],
    },
    Release {
        family: "VSRN",
        sign: "img_enc.Rs_GCN_1.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("img_enc.img_rnn", "img_gru"),
            ("img_enc.bn", "img_bn"),
            ("img_enc.Rs_GCN_1.W.0", "gcn.0.out"),
            ("img_enc.Rs_GCN_1.W.1", "gcn.0.bn"),
            ("img_enc.Rs_GCN_1", "gcn.0"),
            ("img_enc.Rs_GCN_2.W.0", "gcn.1.out"),
            ("img_enc.Rs_GCN_2.W.1", "gcn.1.bn"),
            ("img_enc.Rs_GCN_2", "gcn.1"),
            ("img_enc.Rs_GCN_3.W.0", "gcn.2.out"),
            ("img_enc.Rs_GCN_3.W.1", "gcn.2.bn"),
            ("img_enc.Rs_GCN_3", "gcn.2"),
            ("img_enc.Rs_GCN_4.W.0", "gcn.3.out"),
            ("img_enc.Rs_GCN_4.W.1", "gcn.3.bn"),
            ("img_enc.Rs_GCN_4", "gcn.3"),
            ("txt_enc.embed", "embed"),
            ("txt_enc.rnn", "gru"),
        ],
        left_out: &[],
        parts: &[],
    },
    Release {
        family: "PVSE",
        sign: "img_enc.pie_net.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("img_enc.pie_net.attention.w_1", "img_pie.w1"),
            ("img_enc.pie_net.attention.w_2", "img_pie.w2"),
            ("img_enc.pie_net.fc", "img_pie.fc"),
            ("img_enc.pie_net.layer_norm", "img_pie.ln"),
            ("txt_enc.embed", "embed"),
            ("txt_enc.rnn", "gru"),
            ("txt_enc.pie_net.attention.w_1", "txt_pie.w1"),
            ("txt_enc.pie_net.attention.w_2", "txt_pie.w2"),
            ("txt_enc.pie_net.fc", "txt_pie.fc"),
            ("txt_enc.pie_net.layer_norm", "txt_pie.ln"),
        ],
        // The network that makes the features.
        left_out: &["img_enc.cnn."],
        parts: &[],
    },
    Release {
        family: "SGRAF",
        sign: "sim_enc.sim_tranloc_w.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("txt_enc.embed", "embed"),
            ("txt_enc.cap_rnn", "gru"),
            ("sim_enc.v_global_w.embedding_local.0", "v_sa.local"),
            ("sim_enc.v_global_w.embedding_local.1", "v_sa.local_bn"),
            ("sim_enc.v_global_w.embedding_global.0", "v_sa.global"),
            ("sim_enc.v_global_w.embedding_global.1", "v_sa.global_bn"),
            ("sim_enc.v_global_w.embedding_common.0", "v_sa.common"),
            ("sim_enc.t_global_w.embedding_local.0", "t_sa.local"),
            ("sim_enc.t_global_w.embedding_global.0", "t_sa.global"),
            ("sim_enc.t_global_w.embedding_common.0", "t_sa.common"),
            ("sim_enc.sim_tranloc_w", "sim_loc"),
            ("sim_enc.sim_tranglo_w", "sim_glo"),
            ("sim_enc.sim_eval_w", "sim_eval"),
            ("sim_enc.SGR_module", "sgr"),
            ("sim_enc.SAF_module.attn_sim_w", "saf.attn"),
            ("sim_enc.SAF_module.bn", "saf.bn"),
        ],
        left_out: &[],
        parts: &[("graph_query_w", "query"), ("graph_key_w", "key"), ("sim_graph_w", "graph")],
    },
    Release {
        family: "NAAF",
        sign: "txt_enc.embed.glove.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("txt_enc.embed.glove", "embed"),
            ("txt_enc.rnn", "gru"),
        ],
        left_out: &[],
        parts: &[],
    },
    Release {
        family: "CAMP",
        sign: "sim_enc.img_key_fc.",
        layers: &[
            ("img_enc.fc", "img_fc"),
            ("txt_enc.embed", "embed"),
            ("txt_enc.rnn", "gru"),
            ("sim_enc.img_key_fc", "img_key"),
            ("sim_enc.txt_key_fc", "txt_key"),
            ("sim_enc.img_query_fc", "img_query"),
            ("sim_enc.txt_query_fc", "txt_query"),
            ("sim_enc.weighted_img_key_fc", "msg_img_key"),
            ("sim_enc.weighted_txt_key_fc", "msg_txt_key"),
            ("sim_enc.weighted_img_query_fc", "msg_img_query"),
            ("sim_enc.weighted_txt_query_fc", "msg_txt_query"),
            ("sim_enc.fc_1.0", "fuse_img"),
            ("sim_enc.fc_2.0", "fuse_txt"),
            ("sim_enc.fc_out.0", "score1"),
            ("sim_enc.fc_out.3", "score2"),
            ("sim_enc.reduce_layer_1.linear.0", "pool_img.l1"),
            ("sim_enc.reduce_layer_1.linear.2", "pool_img.l2"),
            ("sim_enc.reduce_layer_2.linear.0", "pool_txt.l1"),
            ("sim_enc.reduce_layer_2.linear.2", "pool_txt.l2"),
            ("sim_enc.final_reduce_1.linear.0", "pool_img.l1"),
            ("sim_enc.final_reduce_1.linear.2", "pool_img.l2"),
            ("sim_enc.final_reduce_2.linear.0", "pool_txt.l1"),
            ("sim_enc.final_reduce_2.linear.2", "pool_txt.l2"),
        ],
        left_out: &[],
        parts: &[],
    },
];

/// What becomes of a parameter.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// It has this name here.
    Ours(String),
    /// Models here do without it.
    LeftOut,
    /// The release has none of this name.
    Unknown,
}

/// The name of a parameter in a state dict of the whole model, given that of the encoder.
pub(super) fn whole_name(theirs: &str, part: usize, parts: usize) -> String {
    let rest = theirs.strip_prefix("module.").unwrap_or(theirs);
    let encoder = ["img_enc.", "txt_enc.", "sim_enc."];
    let complete = parts < 2 || encoder.iter().any(|prefix| rest.starts_with(prefix));
    if complete { rest.to_owned() } else { format!("{}{rest}", encoder[part]) }
}

/// The release that has parameters of these names.
pub(super) fn release_of<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'static Release> {
    RELEASES.iter().find(|release| names.clone().any(|name| name.starts_with(release.sign)))
}

impl Release {
    /// What becomes of a parameter.
    pub(super) fn place(&self, whole_name: &str) -> Place {
        let counts = whole_name.ends_with(".num_batches_tracked");
        if counts || self.left_out.iter().any(|start| whole_name.starts_with(start)) {
            return Place::LeftOut;
        }
        let ours = |(theirs, ours): &(&str, &str)| {
            let rest = whole_name.strip_prefix(theirs)?.strip_prefix('.')?;
            let parts = self.parts.iter();
            let rest = parts.fold(rest.to_owned(), |rest, (from, to)| rest.replace(from, to));
            Some(format!("{ours}.{rest}"))
        };
        self.layers.iter().find_map(ours).map_or(Place::Unknown, Place::Ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_their_release() {
        let names = ["img_enc.fc.weight", "img_enc.Rs_GCN_1.g.weight"];
        let vsrn = release_of(names.into_iter()).unwrap();
        assert_eq!(vsrn.family, "VSRN");
        let ours = |name: &str| vsrn.place(&whole_name(name, 0, 2));
        let is = |name: &str| Place::Ours(name.to_owned());
        assert_eq!(ours("Rs_GCN_2.W.0.bias"), is("gcn.1.out.bias"));
        assert_eq!(ours("Rs_GCN_2.W.1.running_var"), is("gcn.1.bn.running_var"));
        assert_eq!(ours("Rs_GCN_2.theta.weight"), is("gcn.1.theta.weight"));
        assert_eq!(ours("Rs_GCN_2.W.1.num_batches_tracked"), Place::LeftOut);
        assert_eq!(ours("cnn.conv1.weight"), Place::Unknown);
        assert_eq!(vsrn.place(&whole_name("rnn.bias_hh_l0", 1, 2)), is("gru.bias_hh_l0"));
        assert_eq!(whole_name("module.img_enc.fc.bias", 0, 1), "img_enc.fc.bias");
        assert!(release_of(["img_enc.fc.weight", "txt_enc.rnn.bias_hh_l0"].into_iter()).is_none());
    }
}
