//! The table, row by row and kind by kind.
