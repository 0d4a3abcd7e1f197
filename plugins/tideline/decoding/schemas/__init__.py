"""From the schemas that records were written with to the columns of the typed table. Pure.

merging      the entry: writer schemas and the previous reader in, the new reader and changes out
changes      what it finds; names that a table can have
shapes       what a field holds, whatever language its schema is written in
joining      the shape that holds a known shape's values and a new one's
selecting    the fields that a stream file lists, as columns
avro_tree    an Avro schema with every named type written out where it is used
avro         Avro schema -> shape -> the merged reader schema; writer schemas for the decoder
json_schema  JSON Schema -> shape -> the merged schema
protobuf     descriptors -> shape -> the merged schema
"""
