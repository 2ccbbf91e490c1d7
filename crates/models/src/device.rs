//! Where models compute.

use candle_core::Device;

use crate::Error;

/// The device of a name: `cpu` (also without a name), `cuda` or `cuda:N`.
pub fn device(name: Option<&str>) -> Result<Device, Error> {
    let name = name.unwrap_or("cpu");
    let number = match name.strip_prefix("cuda") {
        None if name == "cpu" => return Ok(Device::Cpu),
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix(':').and_then(|number| number.parse().ok()),
        None => None,
    };
    let unknown = || Error::setting("device", format!("{name} is not cpu, cuda or cuda:N"));
    let number: usize = number.ok_or_else(unknown)?;
    if !cfg!(feature = "cuda") {
        let what = format!("{name} needs a build with CUDA (cargo build --features cuda)");
        return Err(Error::setting("device", what));
    }
    Ok(Device::new_cuda(number)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert!(device(None).unwrap().is_cpu());
        assert!(device(Some("cpu")).unwrap().is_cpu());
        for (name, expected) in [("gpu", "is not cpu, cuda or cuda:N"), ("cuda:x", "is not cpu")] {
            let error = device(Some(name)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        #[cfg(not(feature = "cuda"))]
        assert!(device(Some("cuda")).unwrap_err().to_string().contains("needs a build with CUDA"));
    }
}
