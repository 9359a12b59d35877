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

// What the formats have in common. Sizes of 0 are those of the product that a matrix is for.
template <typename T> struct StoredMatrix : Block {
  std::size_t numRows = 0, numColumns = 0;
  std::vector<T> nzValues;
  std::vector<std::size_t> columnIndices, rowIndices;

  StoredMatrix(std::vector<T> values, std::vector<std::size_t> columns, std::vector<std::size_t> rows,
               const std::array<std::size_t, 2> &block = {{1, 1}})
      : StoredMatrix(0, 0, std::move(values), std::move(columns), std::move(rows), block) {}
  StoredMatrix(std::size_t rowCount, std::size_t columnCount, std::vector<T> values, std::vector<std::size_t> columns,
               std::vector<std::size_t> rows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : Block(block), numRows(rowCount), numColumns(columnCount), nzValues(std::move(values)),
        columnIndices(std::move(columns)), rowIndices(std::move(rows)) {}
  StoredMatrix(const std::array<std::size_t, 2> &block = {{1, 1}}) : Block(block) {}

protected:
  StoredMatrix(const std::array<std::size_t, 2> &block, std::size_t values, std::size_t columns, std::size_t rows)
      : Block(block), nzValues(values), columnIndices(columns), rowIndices(rows) {}
};

// A row and a column for each block.
template <typename T> struct COOMatrix : StoredMatrix<T> {
  using StoredMatrix<T>::StoredMatrix;
  COOMatrix(std::size_t numNZValues, const std::array<std::size_t, 2> &block = {{1, 1}})
      : StoredMatrix<T>(block, numNZValues, numNZValues, numNZValues) {}
  COOMatrix() {}
  openipu::Named named() const { return Block::named("COO", *this); }
};
// A row for each block; `columnIndices` says where each column of blocks starts in the values.
template <typename T> struct CSCMatrix : StoredMatrix<T> {
  using StoredMatrix<T>::StoredMatrix;
  CSCMatrix(std::size_t numNZValues, std::size_t numColumns, const std::array<std::size_t, 2> &block = {{1, 1}})
      : StoredMatrix<T>(block, numNZValues, numColumns + 1, numNZValues) {}
  CSCMatrix() {}
  openipu::Named named() const { return Block::named("CSC", *this); }
};
// A column for each block; `rowIndices` says where each row of blocks starts in the values.
template <typename T> struct CSRMatrix : StoredMatrix<T> {
  using StoredMatrix<T>::StoredMatrix;
  CSRMatrix(std::size_t numNZValues, std::size_t numRows, const std::array<std::size_t, 2> &block = {{1, 1}})
      : StoredMatrix<T>(block, numNZValues, numNZValues, numRows + 1) {}
  CSRMatrix() {}
  openipu::Named named() const { return Block::named("CSR", *this); }
};

} // namespace popsparse

#endif
