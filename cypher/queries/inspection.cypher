// name: read_server
CALL dbms.components() YIELD name, versions, edition RETURN versions[0] AS version, edition

// name: list_constraints
SHOW CONSTRAINTS YIELD name

// name: list_indexes
SHOW INDEXES YIELD name
