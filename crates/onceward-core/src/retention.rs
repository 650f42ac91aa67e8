//! What a sweep may take.
