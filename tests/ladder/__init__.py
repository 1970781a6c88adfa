"""Tests of ladder/; a package, so that its files share their builders."""
