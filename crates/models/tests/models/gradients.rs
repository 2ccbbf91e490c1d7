//! The sparse procedure on the processor's kernels against plain, dense automatic gradients.

use nextpair_models::{Model, Tensor, Texts, Violation, slope};

use crate::small;

const BATCH: usize = 6;
const MARGIN: f64 = 0.2;

/// The loss of all pairs in plain tensor operations.
fn dense(model: &Model, images: &Tensor, texts: &Texts, violation: Violation) -> Tensor {
    let (images, texts) =
        (model.encode_images(images).unwrap(), model.encode_texts(texts).unwrap());
    let pairs: Vec<(u32, u32)> =
        (0..BATCH * BATCH).map(|at| ((at / BATCH) as u32, (at % BATCH) as u32)).collect();
    let scorer = model.scorer().unwrap();
    let scores = scorer.composed_pair_scores(&images, &texts, &pairs).unwrap();
    let scores = scores.reshape((BATCH, BATCH)).unwrap();
    let eye = Tensor::eye(BATCH, scores.dtype(), scores.device()).unwrap();
    let own = (&scores * &eye).unwrap().sum(1).unwrap();
    let off = ((eye * -1.0).unwrap() + 1.0).unwrap();
    let mut total: Option<Tensor> = None;
    for axis in [1, 0] {
        let own = own.unsqueeze(axis).unwrap();
        let hinges = (scores.broadcast_sub(&own).unwrap() + MARGIN).unwrap().relu().unwrap();
        let hinges = (hinges * &off).unwrap();
        let part = match violation {
            Violation::Max => hinges.max(axis).unwrap().sum_all().unwrap(),
            Violation::Sum => hinges.sum_all().unwrap(),
        };
        total = Some(total.map_or(part.clone(), |sum| (sum + part).unwrap()));
    }
    total.unwrap()
}

#[test]
fn sparse_and_dense_gradients_are_the_same() {
    for (name, config) in small::configs() {
        let model = small::model(&config, 4);
        let exact = model.in_double_precision().unwrap();
        let (images, texts) = small::batch(&config, BATCH, 6);
        for violation in [Violation::Max, Violation::Sum] {
            let sparse = slope(&model, &images, &texts, MARGIN, violation).unwrap();
            let dense =
                dense(&exact, &small::exact(&images), &small::exact_texts(&texts), violation);
            let value = dense.to_scalar::<f64>().unwrap();
            assert!((sparse.loss - value).abs() <= 1e-5 * value, "{name}: {} {value}", sparse.loss);
            assert!(value > 0.1, "{name}: a loss of {value} shows nothing");
            let (sparse, dense) = (sparse.gradients, dense.backward().unwrap());
            let mut compared = 0;
            let vars = model.weights().iter().zip(exact.weights().iter());
            for ((weight, var), (_, exact)) in vars {
                let (sparse, dense) = (sparse.get(var.as_tensor()), dense.get(exact.as_tensor()));
                assert_eq!(sparse.is_some(), dense.is_some(), "{name}: {weight}");
                let (Some(sparse), Some(dense)) = (sparse, dense) else { continue };
                let largest = |tensor: &Tensor| {
                    tensor.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap()
                };
                let size = largest(dense);
                let off = largest(&(small::exact(sparse) - dense).unwrap());
                assert!(
                    off <= 1e-4 * size + 2e-6,
                    "{name} {violation:?}: {weight} is {off} off of {size}"
                );
                compared += usize::from(size > 1e-3);
            }
            assert!(compared >= 4, "{name}");
        }
    }
}

/// A batch that violates nothing, or has nobody to compare with, still has gradients: zeros for
/// the weights that its scores depend on, so that momentum moves them as in PyTorch.
#[test]
fn without_a_violation_the_gradients_are_zeros() {
    for (name, config) in small::configs() {
        let model = small::model(&config, 4);
        let (images, texts) = small::batch(&config, 1, 6);
        let alone = slope(&model, &images, &texts, MARGIN, Violation::Max).unwrap();
        assert_eq!((alone.loss, alone.pairs), (0.0, 0), "{name}");
        let (images, texts) = small::batch(&config, BATCH, 6);
        let many = slope(&model, &images, &texts, MARGIN, Violation::Max).unwrap();
        for (weight, var) in model.weights().iter() {
            let of_many = many.gradients.get(var.as_tensor());
            let zeros = alone.gradients.get(var.as_tensor());
            assert_eq!(zeros.is_some(), of_many.is_some(), "{name}: {weight}");
            let largest = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f32>();
            assert_eq!(zeros.map_or(0.0, |zeros| largest(zeros).unwrap()), 0.0, "{name}: {weight}");
        }
    }
}
