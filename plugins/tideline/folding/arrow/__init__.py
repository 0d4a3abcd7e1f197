"""The fold over Arrow, in the run's own process: no Spark is started for it.

hashing    Spark's xxhash64, vectorised; a row's hash and a key's bucket are the same numbers
rows       columns of typed and of current rows, as files have them
keys       a key's text, its bucket, its place among others
texts      whether a value has the text that deletes
places     a change's place in the order, and what is below floors or before a truncate
changes    typed rows as changes of keys, and the last change of each key
untold     deletes that may name another key than their row's
unset      what stands for a value that was not told
record_keys a record's key as a text
spilling   changes that are more than memory bears: sorted runs on a disk
merging    a key's row and its changes become its new row
buckets    a bucket's files and its changes, window by window, become its new file
folding    one fold: a job in, a result out
"""
