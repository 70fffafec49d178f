// SPDX-License-Identifier: MIT
//
// JSON lines to a file of columns:
//
//     node to_columns.cjs parquet|arrow ROWS.jsonl '{"column":"TYPE",…}' FILE
//
// TYPE is ttq's. Times and integers become 64-bit integers, reals doubles; everything else is text, as
// in JSON.
//
// Debian 12 has no library that writes either format. Parquet is written by DuckDB's own package
// for node (statistics, dictionaries, compression; it streams, and is what many load the file
// with), Arrow's IPC file by Arrow's own, `apache-arrow`. They are looked for in node_modules of
// the working directory and of this file, and in NODE_PATH.

const fs = require('fs');
const {Readable} = require('stream');
const {pipeline} = require('stream/promises');

// A batch of an Arrow file ends when it has so many rows, or so much text.
const BATCH_ROWS = 65536, BATCH_TEXT = 64 << 20;

const [format, rows, typesText, output] = process.argv.slice(2);
const columns = Object.entries(JSON.parse(typesText));

function load(name) {
  const paths = [process.cwd(), __dirname, ...(process.env.NODE_PATH || '').split(':').filter(Boolean)];
  try {
    return require(require.resolve(name, {paths}));
  } catch (e) {
    if (e.code !== 'MODULE_NOT_FOUND') throw e;
    throw new Error(`--to ${format} needs ${name}: npm install ${name}`);
  }
}

// ---- Parquet ------------------------------------------------------------------------------------

const DUCKDB_TYPES = {time: 'UBIGINT', integer: 'BIGINT', real: 'DOUBLE', object: 'JSON', list: 'JSON'};

const text = s => `'${s.replaceAll("'", "''")}'`;

async function toParquet() {
  const {DuckDBInstance} = load('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  const types = columns.map(([name, type]) => `${text(name)}: '${DUCKDB_TYPES[type] || 'VARCHAR'}'`);
  await connection.run(
      `COPY (SELECT * FROM read_json(${text(rows)}, format = 'newline_delimited', ` +
      `columns = {${types.join(', ')}}, maximum_object_size = 268435456)) ` +
      `TO ${text(output)} (FORMAT parquet, COMPRESSION zstd)`);
  connection.closeSync();
}

// ---- Arrow --------------------------------------------------------------------------------------

// Not readline: that ends a line at U+2028 too, which JSON has inside texts.
async function* lines() {
  let rest = '';
  for await (const chunk of fs.createReadStream(rows, {encoding: 'utf8', highWaterMark: 1 << 20})) {
    rest += chunk;
    if (!chunk.includes('\n')) continue;
    const whole = rest.split('\n');
    rest = whole.pop();
    yield* whole;
  }
  if (rest) yield rest;
}

function realOf(text) {
  return {nan: NaN, inf: Infinity, '-inf': -Infinity}[text] ?? Number(text);
}

// Rows have a text in each cell, so that no number is rounded, or null.
async function toArrow() {
  const arrow = load('apache-arrow');
  const types = {
    time: () => new arrow.Uint64, integer: () => new arrow.Int64, real: () => new arrow.Float64,
  };
  const number = {time: BigInt, integer: BigInt, real: realOf};
  const fields = columns.map(([name, type]) => new arrow.Field(
      name, (types[type] || (() => new arrow.Utf8))(), true, new Map([['ttq.type', type]])));
  const schema = new arrow.Schema(fields);

  // The format has the schema before the batches, for those who read the file as a stream;
  // apache-arrow (21) only writes the one in the footer.
  class Writer extends arrow.RecordBatchFileWriter {
    _writeSchema(schema) {
      super._writeSchema(schema);
      return arrow.RecordBatchWriter.prototype._writeSchema.call(this, schema);
    }
  }

  async function* batches() {
    const make = () => fields.map(field => arrow.makeBuilder({type: field.type, nullValues: [null]}));
    let builders = make(), length = 0, size = 0, any = false;
    const finish = () => {
      const children = builders.map(builder => builder.finish().flush());
      const data = arrow.makeData({type: new arrow.Struct(fields), length, nullCount: 0, children});
      builders = make();
      length = size = 0;
      any = true;
      return new arrow.RecordBatch(schema, data);
    };
    for await (const line of lines()) {
      const row = JSON.parse(line);
      columns.forEach(([name, type], i) => {
        const cell = row[name];
        builders[i].append(cell !== null && number[type] ? number[type](cell) : cell);
      });
      size += line.length;
      if (++length >= BATCH_ROWS || size >= BATCH_TEXT) yield finish();
    }
    if (length > 0 || !any) yield finish();  // a table without rows has columns all the same
  }

  await pipeline(Readable.from(batches()), Writer.throughNode(),
                 fs.createWriteStream(output));
}

({parquet: toParquet, arrow: toArrow})[format]().catch(e => {
  console.error(`ttq: ${e.message.split('\n')[0]}`);
  process.exit(1);
});
