//! The rotary embeddings that a configuration asks for, in the released form and in transformers'.

use serde_json::{Value, json};

use super::error::CheckpointError;
use super::fields::Fields;
use super::rope::{Rope, Yarn};

/// The rotary embeddings' settings: one object each in transformers' form, or one for the compressed layers in the released form.
struct RopeFields<'a> {
    main: Option<Fields<'a>>,
    compress: Option<Fields<'a>>,
    nested: bool,
}

fn rope_fields<'a>(fields: &Fields<'a>) -> Result<RopeFields<'a>, CheckpointError> {
    // The older name wins, as in transformers, unless it is empty.
    let given = match fields.object("rope_scaling")? {
        Some(scaling) if !scaling.is_empty() => Some(scaling),
        _ => fields.object("rope_parameters")?,
    };
    let Some(given) = given else {
        return Ok(RopeFields { main: None, compress: None, nested: false });
    };
    match (given.object("main")?, given.object("compress")?) {
        (None, None) => Ok(RopeFields { main: None, compress: Some(given), nested: false }),
        (Some(main), Some(compress)) => Ok(RopeFields { main: Some(main), compress: Some(compress), nested: true }),
        (Some(_), None) => Err(given.missing(&["compress"], "rotary embedding of the layers that compress")),
        (None, Some(_)) => Err(given.missing(&["main"], "rotary embedding of the layers that only slide")),
    }
}

/// The width of the rotary part. Several fields can say it; those that do must agree.
pub(super) fn rope_dimension(fields: &Fields<'_>, head_dim: usize) -> Result<usize, CheckpointError> {
    const FACTOR: &str = "partial_rotary_factor";
    let mut said: Vec<(String, usize)> = Vec::new();
    if let Some(dimension) = fields.optional_size(&["qk_rope_head_dim"])? {
        said.push(("qk_rope_head_dim".to_owned(), dimension));
    }
    let ropes = rope_fields(fields)?;
    let nested = [ropes.main, ropes.compress].into_iter().flatten().filter(|_| ropes.nested);
    for object in std::iter::once(fields.clone()).chain(nested) {
        if let Some(factor) = object.optional_number(FACTOR)? {
            // The factor is usually a quotient; do not let its rounding cost a whole unit.
            let dimension = (head_dim as f64 * factor + 1e-6).floor() as usize;
            said.push((object.path_of(FACTOR), dimension));
        }
    }
    let (field, dimension) = said.first().cloned().unwrap_or(("the default, head_dim / 8,".to_owned(), head_dim / 8));
    if let Some((other, different)) = said.iter().find(|(_, other)| *other != dimension) {
        return Err(fields.inconsistent(format!(
            "{field} gives {dimension} rotary values a head, {other} gives {different}; make them agree"
        )));
    }
    if dimension == 0 || !dimension.is_multiple_of(2) || dimension > head_dim {
        return Err(fields.inconsistent(format!(
            "{field} gives {dimension} rotary values a head; it must be an even number from 2 to head_dim = {head_dim}"
        )));
    }
    Ok(dimension)
}

pub(super) fn ropes(fields: &Fields<'_>, rope_dim: usize, positions: usize) -> Result<(Rope, Rope), CheckpointError> {
    let main_theta = theta(fields, "rope_theta")?.unwrap_or(10_000.0);
    let compress_theta = theta(fields, "compress_rope_theta")?.unwrap_or(160_000.0);
    let given = rope_fields(fields)?;
    // Each of transformers' two objects has its own base; where one leaves it out, the field of that embedding stands in.
    // In the released form a base inside `rope_scaling` is ignored: it is not the one of either embedding.
    let rope = |object: Option<Fields<'_>>, theta_above: f64| -> Result<Rope, CheckpointError> {
        let Some(object) = object else {
            return Ok(Rope::new(theta_above, rope_dim, None));
        };
        let own_theta = if given.nested { theta(&object, "rope_theta")? } else { None };
        Ok(Rope::new(own_theta.unwrap_or(theta_above), rope_dim, yarn(&object, positions)?))
    };
    Ok((rope(given.main.clone(), main_theta)?, rope(given.compress.clone(), compress_theta)?))
}

fn theta(fields: &Fields<'_>, name: &str) -> Result<Option<f64>, CheckpointError> {
    match fields.optional_number(name)? {
        Some(theta) if theta <= 1.0 => Err(fields.wrong(name, &json!(theta), "a number above 1")),
        theta => Ok(theta),
    }
}

/// YaRN's parameters, if the object asks for YaRN.
///
/// The amplitude factor is 1 whatever YaRN's own formula says: the released model does not scale cosines and sines. A file that asks for
/// another factor is refused. Bounds are always whole pairs: upstream looks for `truncate` where V4 never has it.
fn yarn(fields: &Fields<'_>, max_positions: usize) -> Result<Option<Yarn>, CheckpointError> {
    let name = if fields.raw("rope_type").is_some() { "rope_type" } else { "type" };
    match fields.raw(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => match value.as_str() {
            Some("default") => return Ok(None),
            Some("yarn") => {}
            _ => return Err(fields.wrong(name, value, "\"default\" or \"yarn\"")),
        },
    }
    if let Some(factor) = fields.optional_number("attention_factor")?
        && factor != 1.0
    {
        return Err(fields.wrong(
            "attention_factor",
            &json!(factor),
            "1, since DeepSeek-V4 does not scale its rotary values",
        ));
    }
    const ORIGINAL: &str = "original_max_position_embeddings";
    let original_positions = fields.optional_size(&[ORIGINAL])?.unwrap_or(max_positions) as f64;
    let factor = match fields.raw("factor") {
        None => return Err(fields.missing(&["factor"], "how far YaRN stretches positions")),
        // An explicit null asks for the quotient of the two lengths.
        Some(Value::Null) => max_positions as f64 / original_positions,
        Some(_) => fields.number("factor", 1.0)?,
    };
    if factor < 1.0 {
        return Err(fields.wrong("factor", &json!(factor), "a number of at least 1"));
    }
    let turns = |name: &str, default: f64| match fields.raw(name) {
        // Upstream takes a zero for "not given".
        Some(value) if value.as_f64() == Some(0.0) => Ok(default),
        _ => fields.number(name, default),
    };
    let (beta_fast, beta_slow) = (turns("beta_fast", 32.0)?, turns("beta_slow", 1.0)?);
    if beta_fast < beta_slow {
        return Err(fields.wrong("beta_fast", &json!(beta_fast), format!("at least beta_slow, which is {beta_slow}")));
    }
    Ok(Some(Yarn { factor, beta_fast, beta_slow, original_positions }))
}
