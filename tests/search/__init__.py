"""Tests of search/; a package, so that its builders can be shared with the ladder's tests."""
