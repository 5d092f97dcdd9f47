# cmake/toolchain-musl.cmake -- this machine's CPU with the musl C library (Debian: musl-tools).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
