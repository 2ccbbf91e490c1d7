//! Reference cases of the selection engine.

use std::sync::Arc;

use crate::data::Matrix;
use crate::engine::{
    Device, Embeddings, Fill, HardNegative, KnownSimilarities, Metric, Problem, Scope, Settings,
    Similarity, Vectors, Weight, histograms, k_center, mean_features, nearest,
};
use anyhow::{Context, Result, ensure};

use super::{Case, Outcome};

/// Checks a selection on similarity matrices, and on embeddings if the case has them.
pub(super) fn selection(case: &Case, device: &Device, outcome: &mut Outcome) -> Result<()> {
    let (own, pairs) = case.table("in.own")?;
    let (cross, columns) = case.table("in.cross")?;
    ensure!(own.len() == pairs * pairs && columns == pairs, "in.own and in.cross do not fit");
    let (own, cross) = (KnownSimilarities::new(pairs, own)?, KnownSimilarities::new(pairs, cross)?);
    settings(case, &(Arc::new(own) as _), &(Arc::new(cross) as _), outcome)?;

    let image_pool = case.config["pool"] == "image";
    let names = if image_pool { ["in.Z", "in.T", "in.X"] } else { ["in.T", "in.Z", "in.Y"] };
    if names.iter().any(|name| !case.has(name)) {
        return Ok(());
    }
    let matrix = |name: &str| -> Result<Matrix> {
        let (values, dim) = case.table(name)?;
        Ok(Matrix::from_f64(dim, &values))
    };
    let (rivals, anchors, pool) = (matrix(names[0])?, matrix(names[1])?, matrix(names[2])?);
    let rivals = Vectors::new(rivals, "the rivals")?.on(device);
    let anchors = Vectors::new(anchors, "the anchors")?.on(device);
    let pool = Vectors::new(pool, "the pool")?.on(device);
    let own = Embeddings::new(rivals, anchors.clone(), Metric::Dot)?;
    let cross = Embeddings::new(pool, anchors, Metric::Dot)?;
    settings(case, &(Arc::new(own) as _), &(Arc::new(cross) as _), outcome)
}

fn settings(
    case: &Case,
    own: &Arc<dyn Similarity>,
    cross: &Arc<dyn Similarity>,
    outcome: &mut Outcome,
) -> Result<()> {
    for setting in case.config["settings"].as_array().context("config.settings is missing")? {
        let text = |name: &str| setting[name].as_str().with_context(|| format!("no {name}"));
        let key = text("key")?;
        one_setting(case, own, cross, setting, outcome).with_context(|| key.to_string())?;
    }
    Ok(())
}

fn one_setting(
    case: &Case,
    own: &Arc<dyn Similarity>,
    cross: &Arc<dyn Similarity>,
    setting: &serde_json::Value,
    outcome: &mut Outcome,
) -> Result<()> {
    let key = setting["key"].as_str().context("no key")?;
    // A key reads condition_topK_weight. The case may also list the parts by name.
    let mut words = key.split('_');
    let (condition, top, weight) = (words.next(), words.next(), words.next());
    let condition = setting["condition"].as_str().or(condition).context("no condition")?;
    let from_key = top.and_then(|t| t.strip_prefix("top")).and_then(|k| k.parse().ok());
    let top_k = setting["k"].as_u64().or(from_key).context("no k")? as usize;
    let weight = match setting["weight"].as_str().or(weight) {
        Some("count") => Weight::Count,
        Some("surplus") => Weight::Surplus,
        other => anyhow::bail!("weight {other:?}"),
    };
    let subset = |name: &str| -> Result<Vec<usize>> {
        let indices = case.integers(&format!("in.{condition}.{name}"))?;
        indices.into_iter().map(|i| Ok(usize::try_from(i)?)).collect()
    };
    let (scope, listed) = match condition {
        "full" => (None, (0..own.columns()).collect()),
        _ => {
            let (rivals, anchors) = (subset("z_subset")?, subset("t_subset")?);
            (Some(Scope { anchors: anchors.clone(), rivals }), anchors)
        }
    };
    let strategy = HardNegative { top_k, weight, fill: Fill::Index, ..HardNegative::default() };
    let settings = Settings { scope, ..Settings::default() };
    let problem =
        Problem::of_similarities(cross.clone(), own.clone()).settings(settings).build()?;
    let problem = problem.of_strategy(&strategy)?;
    let (pool, rule) = (problem.pool(), &problem.matching()?.rule);
    let every = problem.select(&strategy, pool, &())?;

    // The file lists thresholds in its own order of anchors.
    let mut xi = Vec::with_capacity(listed.len());
    for anchor in listed {
        let position = rule.anchors().binary_search(&(anchor as u32));
        xi.push(every.thresholds[position.ok().context("an anchor went missing")?]);
    }
    outcome.close("xi", &xi, &case.floats(&format!("out.{condition}_top{top_k}.xi"))?)?;
    let (mut scores, mut hits) = (vec![0.0; pool], vec![0; pool]);
    for pick in &every.picks {
        scores[pick.index as usize] = pick.score;
        hits[pick.index as usize] = pick.hits.map_or(-1, i64::from);
    }
    outcome.equal("hits", &hits, &case.integers(&format!("out.{condition}_top{top_k}.hits"))?)?;
    outcome.close("h", &scores, &case.floats(&format!("out.{key}.h"))?)?;
    let order: Vec<i64> = every.indices().into_iter().map(i64::from).collect();
    outcome.equal("order", &order, &case.integers(&format!("out.{key}.order"))?)?;
    for budget in setting["b"].as_array().into_iter().flatten() {
        let budget = budget.as_u64().context("b is not a number")? as usize;
        let picks = problem.select(&strategy, budget, &())?;
        let found: Vec<i64> = picks.indices().into_iter().map(i64::from).collect();
        let name = format!("selected_b{budget}");
        outcome.equal(&name, &found, &case.integers(&format!("out.{key}.{name}"))?)?;
    }
    if let Some(share) = setting["percent_hard_negative"].as_f64() {
        outcome.close("share", &[every.hard_negative_share().unwrap_or(f64::NAN)], &[share])?;
    }
    Ok(())
}

pub(super) fn core_set(case: &Case, device: &Device, outcome: &mut Outcome) -> Result<()> {
    let (centres, dim) = case.table("in.centers")?;
    let (items, items_dim) = case.table("in.pool")?;
    let centres_v = Vectors::new(Matrix::from_f64(dim, &centres), "the centres")?.on(device);
    let items_v = Vectors::new(Matrix::from_f64(items_dim, &items), "the pool")?.on(device);
    let selected = case.integers("out.selected")?;
    let picks = k_center(&centres_v, &items_v, selected.len(), &())?;
    let indices: Vec<i64> = picks.iter().map(|&(index, _)| index as i64).collect();
    let distances: Vec<f64> = picks.iter().map(|&(_, distance)| distance).collect();
    outcome.equal("selected", &indices, &selected)?;
    let name = "out.min_distance_when_selected";
    outcome.close("distance", &distances, &case.floats(name)?)?;

    // With the picks as centres, every distance is the one to the nearest centre.
    let mut all = centres;
    for &(index, _) in &picks {
        all.extend_from_slice(&items[index as usize * dim..][..dim]);
    }
    let all = Vectors::new(Matrix::from_vec(dim, all), "the centres")?;
    ensure!(!items_v.is_empty(), "in.pool is empty");
    let distances: Vec<f64> =
        nearest(&all, &items_v, &())?.into_iter().map(|(_, square)| square.sqrt()).collect();
    outcome.close("final distance", &distances, &case.floats("out.final_min_distance")?)
}

pub(super) fn features(case: &Case, device: &Device, outcome: &mut Outcome) -> Result<()> {
    let (shape, regions) = case.file.f64s("in.regions")?;
    let [_, locals, dim] = shape[..] else { anyhow::bail!("in.regions has shape {shape:?}") };
    ensure!(locals > 0 && dim > 0, "in.regions has shape {shape:?}");
    let items = Matrix::from_f64(dim, &regions).with_locals(locals);
    let (centroids, centroids_dim) = case.table("in.centroids")?;
    let centroids = Matrix::from_f64(centroids_dim, &centroids);
    let regions = Vectors::new(items.flattened(), "the regions")?.on(device);
    let near = nearest(&Vectors::new(centroids.clone(), "the centroids")?, &regions, &())?;
    let words: Vec<i64> = near.into_iter().map(|(word, _)| word as i64).collect();
    outcome.equal("assignment", &words, &case.integers("out.assignment")?)?;
    let histograms = histograms(&centroids, &items, &())?;
    outcome.close("histogram", &values(&histograms), &case.floats("out.histogram")?)?;
    outcome.close("mean", &values(&mean_features(&items, &())?), &case.floats("out.mean_feature")?)
}

fn values(matrix: &Matrix) -> Vec<f64> {
    let mut values = vec![0.0; matrix.rows() * matrix.dim()];
    for (row, values) in values.chunks_exact_mut(matrix.dim()).enumerate() {
        matrix.read_f64(row, values);
    }
    values
}
