//! Reference cases of ranks and recall.

use crate::data::Matrix;
use crate::engine::{
    Embeddings, KnownSimilarities, Metric, Ranks, Recall, Similarity, Vectors, ranks,
};
use anyhow::{Context, Result, ensure};

use super::{Case, Outcome};

pub(super) fn eval(case: &Case, outcome: &mut Outcome) -> Result<()> {
    if case.has("in.image_emb") {
        let (images, dim) = case.table("in.image_emb")?;
        let (captions, captions_dim) = case.table("in.caption_emb")?;
        let images = Matrix::from_f64(dim, &images);
        let captions = Matrix::from_f64(captions_dim, &captions);
        let rows = Vectors::new(images, "the images")?;
        let columns = Vectors::new(captions, "the captions")?;
        return one(case, &Embeddings::new(rows, columns, Metric::Dot)?, outcome);
    }
    let (sims, captions) = case.table("in.sims")?;
    let sims = KnownSimilarities::new(captions, sims)?;
    match case.config["folds"].as_u64() {
        Some(folds) => by_folds(case, &sims, folds as usize, outcome),
        None => one(case, &sims, outcome),
    }
}

/// Computes the ranks of some images and their captions. Every image has the same number of
/// captions.
fn ranks_of(sims: &dyn Similarity, images: std::ops::Range<usize>) -> Result<Ranks> {
    let per_image = sims.columns() / sims.rows().max(1);
    ensure!(per_image * sims.rows() == sims.columns(), "captions do not divide among images");
    let image_of: Vec<u32> = (0..sims.columns()).map(|c| (c / per_image) as u32).collect();
    let rows: Vec<u32> = images.clone().map(|i| i as u32).collect();
    let columns: Vec<u32> =
        (images.start * per_image..images.end * per_image).map(|c| c as u32).collect();
    Ok(ranks(sims, &rows, &columns, &image_of, &())?)
}

fn row(recall: &Recall) -> [f64; 5] {
    let [r1, r5, r10] = recall.at;
    [r1, r5, r10, recall.median, recall.mean]
}

fn one(case: &Case, sims: &dyn Similarity, outcome: &mut Outcome) -> Result<()> {
    let found = ranks_of(sims, 0..sims.rows())?;
    let (text, image) = (Recall::of(&found.text), Recall::of(&found.image));
    for (name, ranks, top, recall) in [
        ("i2t", &found.text, &found.best_text, &text),
        ("t2i", &found.image, &found.best_image, &image),
    ] {
        let whole = |values: &[u32]| values.iter().map(|&v| v as i64).collect::<Vec<_>>();
        let list = |suffix: &str| case.integers(&format!("out.{name}_{suffix}"));
        outcome.equal(&format!("{name} ranks"), &whole(ranks), &list("ranks")?)?;
        if case.has(&format!("out.{name}_top1")) {
            outcome.equal(&format!("{name} top1"), &whole(top), &list("top1")?)?;
        }
        outcome.close(name, &row(recall), &case.floats(&format!("out.{name}"))?)?;
        if case.has(&format!("tie.{name}_rank_best")) {
            let bound = |which| case.integers(&format!("tie.{name}_rank_{which}"));
            let (best, worst) = (bound("best")?, bound("worst")?);
            let within = |(rank, (best, worst)): (&u32, (&i64, &i64))| {
                (*best..=*worst).contains(&(*rank as i64))
            };
            let all = ranks.iter().zip(best.iter().zip(&worst)).all(within);
            ensure!(all, "{name}: a rank is outside what any order of ties could give");
        }
    }
    if case.has("out.rsum") {
        outcome.close("rsum", &[text.sum() + image.sum()], &case.floats("out.rsum")?)?;
    }
    Ok(())
}

fn by_folds(case: &Case, sims: &dyn Similarity, folds: usize, outcome: &mut Outcome) -> Result<()> {
    let size = case.config["images_per_fold"].as_u64().context("no images_per_fold")? as usize;
    ensure!(folds > 0 && folds * size <= sims.rows(), "more folds than images");
    let mut rows = Vec::new();
    for fold in 0..folds {
        let found = ranks_of(sims, fold * size..(fold + 1) * size)?;
        let (text, image) = (Recall::of(&found.text), Recall::of(&found.image));
        rows.extend(row(&text));
        rows.extend(row(&image));
        rows.extend([text.sum() / 3.0, image.sum() / 3.0, text.sum() + image.sum()]);
    }
    outcome.close("per fold", &rows, &case.floats("out.per_fold")?)?;
    let width = rows.len() / folds;
    let mean = |column: usize| rows.iter().skip(column).step_by(width).sum::<f64>() / folds as f64;
    let means: Vec<f64> = (0..width).map(mean).collect();
    outcome.close("mean", &means, &case.floats("out.mean")?)
}
