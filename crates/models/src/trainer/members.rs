//! Trainers of several models as one, and each of them again.

use nextpair_kernels::{Device, Moments, Optimiser, Tensor};

use super::Trainer;
use crate::average::WeightSum;
use crate::members::{part, stacked};
use crate::{Error, Model, Training};

impl Trainer {
    /// Trainers of models of one architecture as one, on a device. They have the same settings but for
    /// their seeds, and have taken equally many steps.
    pub(crate) fn stacked(members: &[Trainer], device: Device) -> Result<Self, Error> {
        let [first, ..] = members else {
            return Err(Error::setting("members", "there are none"));
        };
        let models: Vec<&Model> = members.iter().map(|trainer| &trainer.model).collect();
        let model = Model::stacked(&models, device)?;
        let all = |tensor: &dyn Fn(&Trainer) -> Tensor| {
            let parts: Vec<Tensor> = members.iter().map(tensor).collect();
            stacked(&parts.iter().collect::<Vec<_>>(), device)
        };
        let moments = first.optimiser.moments().iter().enumerate().map(|(at, own)| {
            let kept = own.kept.iter().enumerate().map(|(kind, kept)| match own.steps {
                // Nothing but zeros: no need to send them.
                0 => {
                    let mut shape = vec![members.len()];
                    shape.extend(kept.shape());
                    Ok(Tensor::zeros(&shape, device)?)
                }
                _ => all(&|trainer| trainer.optimiser.moments()[at].kept[kind].clone()),
            });
            Ok(Moments { kept: kept.collect::<Result<_, Error>>()?, steps: own.steps })
        });
        let optimiser =
            first.optimiser_of(moments.collect::<Result<_, Error>>()?, members.len())?;
        let sum = first.sum.as_ref().map(|_| {
            let sums = (0..first.sums().len()).map(|at| all(&|trainer| trainer.sums()[at].clone()));
            Ok::<_, Error>(WeightSum::of(sums.collect::<Result<_, Error>>()?))
        });
        Ok(Trainer {
            model,
            optimiser,
            training: first.training.clone(),
            seeds: members.iter().flat_map(|trainer| trainer.seeds.iter().copied()).collect(),
            log_temperature: all(&|trainer| trainer.log_temperature.clone())?,
            sum: sum.transpose()?,
        })
    }

    /// The optimiser with the moments of so many members.
    fn optimiser_of(&self, moments: Vec<Moments>, members: usize) -> Result<Optimiser, Error> {
        let (method, factors) = (self.optimiser.method(), self.optimiser.factors().to_vec());
        Ok(Optimiser::of_members(method, moments, members).with_factors(factors)?)
    }

    /// The sums over the last epochs.
    fn sums(&self) -> &[Tensor] {
        self.sum.as_ref().map_or(&[], WeightSum::tensors)
    }

    /// The trainer of a member.
    pub(crate) fn member(&self, member: usize) -> Result<Self, Error> {
        let members = self.seeds.len();
        let own = |tensor: &Tensor| part(tensor, member, members);
        let moments = self.optimiser.moments().iter().map(|moments| {
            let kept = moments.kept.iter().map(own).collect::<Result<_, Error>>()?;
            Ok(Moments { kept, steps: moments.steps })
        });
        let optimiser = self.optimiser_of(moments.collect::<Result<_, Error>>()?, 1)?;
        let sum = self.sum.as_ref().map(|_| {
            let sums = self.sums().iter().map(own);
            Ok::<_, Error>(WeightSum::of(sums.collect::<Result<_, Error>>()?))
        });
        let seed = self.seeds[member];
        Ok(Trainer {
            model: self.model.member(member)?,
            optimiser,
            training: Training { seed, ..self.training.clone() },
            seeds: vec![seed],
            log_temperature: own(&self.log_temperature)?,
            sum: sum.transpose()?,
        })
    }
}
