//! Whether the shades of the themes can be read.

use ratatui::style::Color;

use super::Theme;

/// Red, green and blue of one of the 256 colours above the terminal's own sixteen.
fn rgb(index: u8) -> [u8; 3] {
    match index {
        0..16 => panic!("the terminal's own"),
        16..232 => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = index - 16;
            [level(cube / 36), level(cube / 6 % 6), level(cube % 6)]
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}

/// Relative luminance, as WCAG 2 defines it.
fn luminance(rgb: [u8; 3]) -> f64 {
    let [red, green, blue] = rgb.map(|channel| {
        let share = f64::from(channel) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn the_formula_is_that_of_wcag() {
    assert!((contrast([255; 3], [0; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast([0x77; 3], [255; 3]) - 4.48).abs() < 0.01);
    assert_eq!(rgb(246), [148; 3]);
    assert_eq!(rgb(210), [255, 135, 135]);
}

/// On the darkest and the lightest background that people use with such a theme: black to a dark grey, white to a cream.
#[test]
fn every_colour_can_be_read_on_its_background() {
    let themes = [
        ("dark", Theme::DARK, [[0, 0, 0], [0x2e, 0x34, 0x40]]),
        ("light", Theme::LIGHT, [[255, 255, 255], [0xfd, 0xf6, 0xe3]]),
    ];
    for (name, mut theme, backgrounds) in themes {
        for role in Theme::ROLES {
            let style = *theme.role_mut(role).unwrap();
            let Some(colour) = style.fg else { continue };
            let Color::Indexed(index) = colour else { panic!("{name} {role}: {colour}") };
            for background in backgrounds {
                let ratio = contrast(rgb(index), background);
                assert!(ratio >= 4.5, "{name} {role}: {ratio:.2} on {background:?}");
            }
        }
    }
}
