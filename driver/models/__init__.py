"""Models: loading, compiling into an artefact, one executable per shape, schedules by hand."""
