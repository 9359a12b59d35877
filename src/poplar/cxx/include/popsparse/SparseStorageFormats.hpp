// Sparse matrices on the host, of single values or of blocks. Part of openipu, written independently.
#ifndef openipu_popsparse_SparseStorageFormats_hpp
#define openipu_popsparse_SparseStorageFormats_hpp

#include <openipu/library.hpp>

#include <array>
#include <utility>
#include <vector>

namespace popsparse {

struct Block {
  std::size_t getNumRowsInBlock() const { return blockDimensions[0]; }
  std::size_t getNumColumnsInBlock() const { return blockDimensions[1]; }
  std::size_t getBlockSize() const { return blockDimensions[0] * blockDimensions[1]; }
  std::array<std::size_t, 2> getBlockDimensions() const { return blockDimensions; }

protected:
  explicit Block(const std::array<std::size_t, 2> &block) : blockDimensions(block) {}
  template <typename Matrix> static openipu::Named named(const char *kind, const Matrix &matrix) {
    const std::array<std::size_t, 2> block = matrix.getBlockDimensions();
    return openipu::Named::make(
        "popsparse._flat.make_matrix", kind,
        openipu::numbers(std::vector<std::size_t>{matrix.numRows, matrix.numColumns, block[0], block[1]}),
        std::vector<double>(matrix.nzValues.begin(), matrix.nzValues.end()), openipu::numbers(matrix.columnIndices),
        openipu::numbers(matrix.rowIndices));
  }
  std::array<std::size_t, 2> blockDimensions;
};

// A row and a column for each block.
template <typename T> struct COOMatrix : Block {
  std::size_t numRows = 0, numColumns = 0; // 0: those of the product that the matrix is for
  std::vector<T> nzValues;
  std::vector<std::size_t> columnIndices, rowIndices;

  COOMatrix(std::vector<T> values, std::vector<std::size_t> columns, std::vector<std::size_t> rows,
            const std::array<std::size_t, 2> &block = {{1, 1}})
      : COOMatrix(0, 0, std::move(values), std::move(columns), std::move(rows), block) {}
  COOMatrix(std::size_t rowCount, std::size_t columnCount, std::vector<T> values, std::vector<std::size_t> columns,
            std::vector<std::size_t> rows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), numRows(rowCount), numColumns(columnCount), nzValues(std::move(values)),
        columnIndices(std::move(columns)), rowIndices(std::move(rows)) {}
  COOMatrix(std::size_t numNZValues, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), nzValues(numNZValues), columnIndices(numNZValues), rowIndices(numNZValues) {}
  COOMatrix(const std::array<std::size_t, 2> &block = {{1, 1}}) : Block(block) {}

  openipu::Named named() const { return Block::named("COO", *this); }
};
// A row for each block; `columnIndices` says where each column of blocks starts in the values.
template <typename T> struct CSCMatrix : Block {
  std::size_t numRows = 0, numColumns = 0; // 0: those of the product that the matrix is for
  std::vector<T> nzValues;
  std::vector<std::size_t> columnIndices, rowIndices;

  CSCMatrix(std::vector<T> values, std::vector<std::size_t> columns, std::vector<std::size_t> rows,
            const std::array<std::size_t, 2> &block = {{1, 1}})
      : CSCMatrix(0, 0, std::move(values), std::move(columns), std::move(rows), block) {}
  CSCMatrix(std::size_t rowCount, std::size_t columnCount, std::vector<T> values, std::vector<std::size_t> columns,
            std::vector<std::size_t> rows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), numRows(rowCount), numColumns(columnCount), nzValues(std::move(values)),
        columnIndices(std::move(columns)), rowIndices(std::move(rows)) {}
  CSCMatrix(std::size_t numNZValues, std::size_t numColumns, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), nzValues(numNZValues), columnIndices(numColumns + 1), rowIndices(numNZValues) {}
  CSCMatrix(const std::array<std::size_t, 2> &block = {{1, 1}}) : Block(block) {}

  openipu::Named named() const { return Block::named("CSC", *this); }
};
// A column for each block; `rowIndices` says where each row of blocks starts in the values.
template <typename T> struct CSRMatrix : Block {
  std::size_t numRows = 0, numColumns = 0; // 0: those of the product that the matrix is for
  std::vector<T> nzValues;
  std::vector<std::size_t> columnIndices, rowIndices;

  CSRMatrix(std::vector<T> values, std::vector<std::size_t> columns, std::vector<std::size_t> rows,
            const std::array<std::size_t, 2> &block = {{1, 1}})
      : CSRMatrix(0, 0, std::move(values), std::move(columns), std::move(rows), block) {}
  CSRMatrix(std::size_t rowCount, std::size_t columnCount, std::vector<T> values, std::vector<std::size_t> columns,
            std::vector<std::size_t> rows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), numRows(rowCount), numColumns(columnCount), nzValues(std::move(values)),
        columnIndices(std::move(columns)), rowIndices(std::move(rows)) {}
  CSRMatrix(std::size_t numNZValues, std::size_t numRows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), nzValues(numNZValues), columnIndices(numNZValues), rowIndices(numRows + 1) {}
  CSRMatrix(const std::array<std::size_t, 2> &block = {{1, 1}}) : Block(block) {}

  openipu::Named named() const { return Block::named("CSR", *this); }
};

} // namespace popsparse

#endif
