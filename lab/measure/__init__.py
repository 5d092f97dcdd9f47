# lab/measure/__init__.py -- run programs side by side, and say what came out.
"""From the bottom up:

  line         the result line that a workload prints
  launch       one run of one program: status, output, CPU time, peak memory
  program      what to run, and what one run of it gave
  rounds       every program once a round, so that a busy moment of the machine meets all of them
  summary      medians and spreads of a program's runs; which comparisons do not count
  comparison   the tables of the comparison, and what is said beneath them
  checks       a figure, the bound it has to keep, and whether it does
  environment  the machine and the versions that a figure belongs to
  records      all of it as JSON and CSV
  show         tables, notes and a progress bar
  options      a command line whose errors are two lines
"""
