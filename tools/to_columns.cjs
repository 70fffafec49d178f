// SPDX-License-Identifier: MIT
//
// JSON lines to Parquet, by DuckDB:  node to_parquet.cjs ROWS.jsonl '{"column":"TYPE",…}' FILE
//
// Debian 12 has no library that writes Parquet. DuckDB's own package for node does (statistics,
// dictionaries, compression), streams, and is what many load the file with; it is looked for in
// node_modules of the working directory and of this file, and in NODE_PATH.

const [rows, columns, output] = process.argv.slice(2);

function load() {
  const paths = [process.cwd(), __dirname, ...(process.env.NODE_PATH || '').split(':').filter(Boolean)];
  try {
    return require(require.resolve('@duckdb/node-api', {paths}));
  } catch (e) {
    if (e.code !== 'MODULE_NOT_FOUND') throw e;
    throw new Error('--to parquet needs DuckDB: npm install @duckdb/node-api');
  }
}

const text = s => `'${s.replaceAll("'", "''")}'`;

async function main() {
  const {DuckDBInstance} = load();
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  const types = Object.entries(JSON.parse(columns)).map(([name, type]) => `${text(name)}: ${text(type)}`);
  await connection.run(
      `COPY (SELECT * FROM read_json(${text(rows)}, format = 'newline_delimited', ` +
      `columns = {${types.join(', ')}}, maximum_object_size = 268435456)) ` +
      `TO ${text(output)} (FORMAT parquet, COMPRESSION zstd)`);
  connection.closeSync();
}

main().catch(e => {
  console.error(`ttq: ${e.message.split('\n')[0]}`);
  process.exit(1);
});
