//! Plain tables for people: of the demo, and of the command line.

use std::fmt;

/// Columns that are as wide as what stands in them.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With this head.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(ToString::to_string).collect());
    }

    /// Whether it has nothing but its head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            f.write_str(cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_no_line_ends_in_spaces() {
        let mut table = Table::new(&["id", "state"]);
        assert!(table.is_empty());
        table.row(&["order-17", "ok"]);
        assert_eq!(table.to_string(), "id        state\norder-17  ok");
    }
}
