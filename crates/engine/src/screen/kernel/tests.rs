//! Every unit of the machine against plain products.

use proptest::prelude::*;

use super::*;
use crate::Draws;

fn units() -> impl Iterator<Item = Unit> {
    Unit::ALL.iter().copied().filter(|unit| unit.is_here())
}

/// Codes within the range of a unit: some random, some as large as it allows.
fn codes(unit: Unit, dim: usize, draws: &mut Draws) -> Vec<i8> {
    let sharp = draws.unit();
    let mut value = || match draws.unit() < sharp {
        true => draws.normal() as f32,
        false => 1.0 - 2.0 * (draws.bits() & 1) as f32,
    };
    let values: Vec<f32> = (0..dim).map(|_| value()).collect();
    let largest = values.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
    let scale = unit.range().scale(&values, largest);
    values.iter().map(|value| (value / scale).round() as i8).collect()
}

fn plain(x: &[i8], y: &[i8]) -> i32 {
    x.iter().zip(y).map(|(&x, &y)| x as i32 * y as i32).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn survivors_are_those_of_plain_products(
        dim in 1..300usize, count in 1..40usize, width in 1..=PANEL, seed: u64,
    ) {
        for unit in units() {
            let mut draws = Draws::new(seed);
            let x: Vec<Vec<i8>> = (0..count).map(|_| codes(unit, dim, &mut draws)).collect();
            let y: Vec<Vec<i8>> = (0..width).map(|_| codes(unit, dim, &mut draws)).collect();
            let mut panel = PanelCodes::new(unit, dim);
            y.iter().enumerate().for_each(|(c, codes)| panel.set(c, codes));
            let mut rows = RowCodes::new(unit, count, dim);
            for (r, codes) in x.iter().enumerate() {
                rows.set(r, codes);
                (rows.scales[r], rows.residuals[r], rows.offsets[r]) = (1.0, r as f32, 7.0);
            }
            // Cuts that some products are equal to: whole numbers are exact in single precision.
            let mut cut = [0.0; PANEL];
            for (c, cut) in cut.iter_mut().enumerate().take(width) {
                let r = draws.bits() as usize % count;
                *cut = (plain(&x[r], &y[c]) + 2 * r as i32 - 21) as f32;
            }
            let columns = Columns { spread: &[2.0; PANEL], tilt: &[-3.0; PANEL], cut: &cut };
            let mut found = Vec::new();
            survivors(&panel, width, &rows, columns, &mut found);
            let stands = |&(r, c): &(usize, usize)| {
                (plain(&x[r], &y[c]) + 2 * r as i32 - 21) as f32 > cut[c]
            };
            let all = (0..count).flat_map(|r| (0..width).map(move |c| (r, c)));
            let expected: Vec<(u32, u32)> =
                all.filter(stands).map(|(r, c)| (r as u32, c as u32)).collect();
            prop_assert_eq!(found, expected, "{:?}", unit);
        }
    }

    #[test]
    fn single_products_are_plain_products(dim in 1..300usize, seed: u64) {
        for unit in units() {
            let mut draws = Draws::new(seed);
            let mut code = || (draws.bits() % 255) as i32 as i8;
            let mut vector = || -> Vec<i8> { (0..dim).map(|_| code().max(-127)).collect() };
            let (x, y) = ([vector(), vec![127; dim]], [vector(), vector(), vec![-127; dim]]);
            let stored = |vectors: &[Vec<i8>]| {
                let mut stored = VectorCodes::new(vectors.len(), dim);
                vectors.iter().enumerate().for_each(|(v, codes)| stored.set(v, codes));
                stored
            };
            let all: Vec<(u32, u32)> = (0..2).flat_map(|r| (0..3).map(move |c| (r, c))).collect();
            let mut odd = all.clone();
            retain_by_product(unit, &stored(&x), &stored(&y), &mut odd, |r, c, product| {
                assert_eq!(product, plain(&x[r], &y[c]), "{unit:?}");
                product % 2 != 0
            });
            let is_odd = |&(r, c): &(u32, u32)| plain(&x[r as usize], &y[c as usize]) % 2 != 0;
            let expected: Vec<(u32, u32)> = all.into_iter().filter(is_odd).collect();
            prop_assert_eq!(odd, expected);
        }
    }
}

/// What a bound is compared with may be NaN; then the pair stands.
#[test]
fn nothing_is_ruled_out_by_nan() {
    for unit in units() {
        let panel = PanelCodes::new(unit, 5);
        let mut rows = RowCodes::new(unit, 2, 5);
        rows.residuals[1] = f32::NAN;
        let ones = &[1.0; PANEL];
        let columns = Columns { spread: ones, tilt: ones, cut: ones };
        let mut found = Vec::new();
        survivors(&panel, 3, &rows, columns, &mut found);
        assert_eq!(found, [(1, 0), (1, 1), (1, 2)], "{unit:?}");
    }
}
