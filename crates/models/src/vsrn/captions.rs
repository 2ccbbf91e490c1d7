//! The part of VSRN that learns to write captions from the regions of images (after Venugopalan et al.,
//! ICCV 2015): an encoder reads the regions, and a decoder with attention predicts every next word.

use nextpair_data::Side;
use nextpair_kernels::Tensor;
use nextpair_kernels::ops::{
    add, attend, columns, concat, concat_columns, cross_entropy, gather, gru_cell, linear, scale,
    softmax_spans, tanh,
};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{Reading, checked_words, recurrent_layers, recurrent_states};
use crate::published::Options;
use crate::weights::Start;
use crate::{Declared, Error, Pass, Texts};

/// Settings of the captioner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Captioner {
    /// Dimensions of its states.
    pub dim: usize,
    /// Dimensions of its words.
    pub word_dim: usize,
    /// Words of a caption at most, markers included.
    pub longest: usize,
    /// The share of its inputs that training drops.
    pub dropout: f64,
}

impl Default for Captioner {
    fn default() -> Self {
        Captioner { dim: 512, word_dim: 300, longest: 60, dropout: 0.2 }
    }
}

/// Purposes of dropout: of the encoder, and of every step of the decoder.
const OF_ENCODER: u64 = 1;
const OF_STEPS: u64 = 2;

/// The word behind the end of a caption.
const PADDING: u32 = 0;

impl Captioner {
    pub(super) fn check(&self) -> Result<(), Error> {
        check_size("captioner.dim", self.dim)?;
        check_size("captioner.word_dim", self.word_dim)?;
        if !(3..=1 << 16).contains(&self.longest) {
            let what = format!("{} is not from 3 to 65536", self.longest);
            return Err(Error::setting("captioner.longest", what));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let what = format!("{} is not from 0 to below 1", self.dropout);
            return Err(Error::setting("captioner.dropout", what));
        }
        Ok(())
    }

    pub(super) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        Ok(Captioner {
            dim: options.size("dim_hidden")?,
            word_dim: options.size("dim_word")?,
            longest: options.size("max_len")?,
            dropout: options.number("input_dropout").unwrap_or(0.2),
        })
    }

    pub(super) fn declare(&self, regions: usize, words: usize) -> Vec<Declared> {
        let (dim, mut all) = (self.dim, Vec::new());
        let usual = |inputs: usize| Start::Uniform(1.0 / (inputs as f64).sqrt());
        let xavier = |from: usize, to: usize| Start::Normal((2.0 / (from + to) as f64).sqrt());
        all.push(Declared::new("cap_enc.fc.weight", &[dim, regions], xavier(regions, dim)));
        all.push(Declared::new("cap_enc.fc.bias", &[dim], usual(regions)));
        all.extend(recurrent_layers("cap_enc.gru", dim, dim, Reading::Forwards));
        let table = Start::Normal(1.0);
        all.push(Declared::new("cap_dec.embed.weight", &[words, self.word_dim], table));
        all.push(Declared::new("cap_dec.att1.weight", &[dim, 2 * dim], usual(2 * dim)));
        all.push(Declared::new("cap_dec.att1.bias", &[dim], usual(2 * dim)));
        all.push(Declared::new("cap_dec.att2.weight", &[1, dim], usual(dim)));
        let inputs = self.word_dim + dim;
        all.extend(recurrent_layers("cap_dec.gru", inputs, dim, Reading::Forwards));
        all.push(Declared::new("cap_dec.out.weight", &[words, dim], xavier(dim, words)));
        all.push(Declared::new("cap_dec.out.bias", &[words], usual(dim)));
        all
    }

    /// The words that a caption gives the decoder, and those that it should predict: its own from the
    /// second on, and one more behind the end.
    fn lesson(&self, words: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut words = words.to_vec();
        if words.len() > self.longest - 1 {
            let end = words[words.len() - 1];
            words.truncate(self.longest);
            *words.last_mut().expect("at least three") = end;
        }
        let mut targets = words[1..].to_vec();
        targets.push(PADDING);
        targets.truncate(self.longest - 1);
        words.truncate(targets.len());
        (words, targets)
    }

    /// `-1/B` times the sum of the logarithms of the probabilities of all words. Steps after the
    /// longest caption are not taken, and words after the end not looked at.
    pub(super) fn loss(
        &self,
        pass: &Pass<'_>,
        regions: &Tensor,
        texts: &Texts,
    ) -> Result<Tensor, Error> {
        let weight = |name: &str| pass.weight(name);
        let (ids, spans) = checked_words(texts, weight("cap_dec.embed.weight")?.shape()[0])?;
        let lessons: Vec<(Vec<u32>, Vec<u32>)> =
            spans.windows(2).map(|span| self.lesson(&ids[span[0]..span[1]])).collect();
        let (items, device) = (lessons.len(), regions.device());
        let each = regions.matrix_shape()?.0 / items.max(1);
        let offsets: Vec<usize> = (0..=items * each).step_by(each.max(1)).collect();
        let read = linear(regions, weight("cap_enc.fc.weight")?, weight("cap_enc.fc.bias")?)?;
        let read = pass.dropout_of_share((self.dropout, OF_ENCODER), Side::Image, &read)?;
        let read = recurrent_states(pass, "cap_enc.gru", &read, &offsets, Reading::Forwards)?;
        let last: Vec<u32> = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
        let mut state = gather(&read, &last)?;
        // att1 [o; q] is the sum of a part for the regions, computed once, and one for the state.
        let first = weight("cap_dec.att1.weight")?;
        let (of_regions, of_state) =
            (columns(first, 0..self.dim)?, columns(first, self.dim..2 * self.dim)?);
        let keys = linear(&read, &of_regions, weight("cap_dec.att1.bias")?)?;
        let nothing = [Tensor::zeros(&[self.dim], device)?, Tensor::zeros(&[1], device)?];
        let item_of: Vec<u32> = (0..items * each).map(|row| (row / each) as u32).collect();
        let steps = lessons.iter().map(|(words, _)| words.len()).max().unwrap_or(0);
        // All words at once: a gradient of the table for every step would cost more than the step.
        let word = |step: usize, words: &[u32]| words.get(step).copied().unwrap_or(PADDING);
        let given = (0..steps).flat_map(|step| lessons.iter().map(move |(own, _)| word(step, own)));
        let given = gather(weight("cap_dec.embed.weight")?, &given.collect::<Vec<_>>())?;
        let (mut states, mut places, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..steps {
            let asked = gather(&linear(&state, &of_state, &nothing[0])?, &item_of)?;
            let scores = tanh(&add(&keys, &asked)?)?;
            let scores = linear(&scores, weight("cap_dec.att2.weight")?, &nothing[1])?;
            let seen = attend(&softmax_spans(&scores, &offsets)?, &read, &offsets)?;
            let own: Vec<u32> = (0..items).map(|item| (step * items + item) as u32).collect();
            let words = gather(&given, &own)?;
            let inputs = concat_columns(&[&words, &seen])?;
            let purpose = OF_STEPS + step as u64;
            let inputs = pass.dropout_of_share((self.dropout, purpose), Side::Text, &inputs)?;
            state = self.next(pass, &inputs, &state)?;
            for (item, (_, own)) in lessons.iter().enumerate() {
                if let Some(&target) = own.get(step) {
                    places.push((step * items + item) as u32);
                    targets.push(target);
                }
            }
            states.push(state.clone());
        }
        let states = concat(&states.iter().collect::<Vec<_>>(), 0)?;
        let written = gather(&states, &places)?;
        let written = linear(&written, weight("cap_dec.out.weight")?, weight("cap_dec.out.bias")?)?;
        Ok(scale(&cross_entropy(&written, &targets)?, 1.0 / items.max(1) as f64)?)
    }

    /// The next state of the decoder.
    fn next(&self, pass: &Pass<'_>, inputs: &Tensor, state: &Tensor) -> Result<Tensor, Error> {
        let weight = |part: &str| pass.weight(&format!("cap_dec.gru.{part}_l0"));
        let given = linear(inputs, weight("weight_ih")?, weight("bias_ih")?)?;
        let recurrent = linear(state, weight("weight_hh")?, weight("bias_hh")?)?;
        Ok(gru_cell(&given, &recurrent, state)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_teaches_its_words_and_one_padding() {
        let captioner = Captioner { longest: 6, ..Captioner::default() };
        let lesson = |words: &[u32]| captioner.lesson(words);
        assert_eq!(lesson(&[1, 5, 2]), (vec![1, 5, 2], vec![5, 2, 0]));
        assert_eq!(lesson(&[1, 5, 6, 7, 2]), (vec![1, 5, 6, 7, 2], vec![5, 6, 7, 2, 0]));
        // Cut to six words, of which the last is the end; nothing is learned behind it.
        let cut = (vec![1, 5, 6, 7, 8], vec![5, 6, 7, 8, 2]);
        assert_eq!(lesson(&[1, 5, 6, 7, 8, 2]), cut);
        assert_eq!(lesson(&[1, 5, 6, 7, 8, 9, 9, 2]), cut);
    }
}
