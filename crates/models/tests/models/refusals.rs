//! Errors name the inputs that models cannot take.

use nextpair_models::{Config, Device, Error, Inputs, Model, Setting, Tensor, Texts};

use crate::small;

#[test]
fn odd_input_is_refused_by_name() {
    for (name, config) in small::configs() {
        let model = small::model(&config, 1, Device::Cpu);
        let none = Tensor::new(Vec::new(), &[2, 0, 10], Device::Cpu).unwrap();
        assert!(matches!(model.encode_images(&none), Err(Error::NoRegions { .. })), "{name}");
        let wide = Tensor::new(vec![0.0; 154], &[2, 7, 11], Device::Cpu).unwrap();
        let error = model.encode_images(&wide).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{name}: {error}");
        if !config.reads_words() {
            continue;
        }
        assert!(matches!(Texts::words(&[vec![1, 2], vec![]]), Err(Error::NoWords { caption: 1 })));
        let gap = Texts::Words { ids: vec![1, 2, 3], offsets: vec![0, 2, 2, 3] };
        let error = model.encode_texts(&gap).unwrap_err();
        assert!(matches!(error, Error::NoWords { caption: 1 }), "{name}: {error}");
        let unknown = Texts::words(&[vec![1, 2], vec![1, 30, 2]]).unwrap();
        let error = model.encode_texts(&unknown).unwrap_err();
        assert!(
            matches!(error, Error::UnknownWord { caption: 1, id: 30, words: 30 }),
            "{name}: {error}"
        );
        let vectors = Texts::vectors(vec![0.0; 60], 30, Device::Cpu).unwrap();
        assert!(matches!(model.encode_texts(&vectors), Err(Error::Shape { .. })), "{name}");
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let mut config = Config::named("text-imram").unwrap();
    for (dim, says) in [(0, "dim: is 0"), (usize::MAX, "is more than 65536")] {
        config.set(Setting::Dim(dim)).unwrap();
        let inputs = Inputs { image: 10, text: 30 };
        let error = Model::new(config.clone(), inputs, 0, Device::Cpu).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    }
}
