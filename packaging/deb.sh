#!/bin/sh
# deb.sh BUILD VERSION MAKE - BUILD/memplan_VERSION_ARCH.deb: what `make install` puts under /usr, for the Debian or Ubuntu that it is built on.
# What it depends on are the packages that the libraries of the program come from here.
set -e
build=$1 version=$2 make=$3
stage=$(realpath "$build")/deb
rm -rf "$stage"
$make -s install PARQUET=0 PREFIX=/usr DESTDIR="$stage"
arch=$(dpkg --print-architecture)

# packages_of FILE: of each library that it needs the soname, the path that the loader finds for it, and its package.
packages_of() {
    packages=
    for soname in $(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'); do
        path=$(realpath "$(ldconfig -p | awk -v s="$soname" '$1 == s { print $NF; exit }')")
        package=$(dpkg -S "$path" "/usr$path" "${path#/usr}" 2> /dev/null | sed -n 's/:.*//p' | head -1)
        [ -n "$package" ] || { echo "deb: no package has $soname" >&2; exit 1; }
        since=$(dpkg-query -W -f '${Version}\n' "$package" | head -1 | sed 's/^[0-9]*://; s/[-+~].*//')
        case $package in libc6) package="libc6 (>= $since)" ;; esac
        case ", $packages, " in *", $package, "*) ;; *) packages="${packages:+$packages, }$package" ;; esac
    done
}
packages_of "$stage/usr/bin/memplan"
depends=$packages recommends=fonts-dejavu-core
# A module is loaded when it is asked for: what it needs, and the launcher of ranks, are recommended.
if [ -e "$stage/usr/lib/memplan/memplan_mpi.so" ]; then
    packages_of "$stage/usr/lib/memplan/memplan_mpi.so"
    recommends="$recommends, $(echo "$packages" | sed 's/libc6 ([^)]*), //; s/, libc6 ([^)]*)//'), openmpi-bin"
fi

mkdir -p "$stage/DEBIAN" "$stage/usr/share/doc/memplan"
cp LICENSE "$stage/usr/share/doc/memplan/copyright"
cp -r examples "$stage/usr/share/doc/memplan/examples"
cat > "$stage/DEBIAN/control" << END
Package: memplan
Version: $version
Architecture: $arch
Maintainer: memplan's makers <memplan@localhost>
Depends: $depends
Recommends: $recommends
Section: science
Priority: optional
Installed-Size: $(du -sk "$stage/usr" | cut -f1)
Description: plans which activations of a training step to recompute
 memplan says how much memory a training step of a neural network (ONNX) needs,
 and finds out what to recompute instead of keep so that it fits a budget.
 With the C library, its headers, and the manual.
END
dpkg-deb --root-owner-group --build "$stage" "$build/memplan_${version}_$arch.deb" > /dev/null
rm -rf "$stage"
echo "$build/memplan_${version}_$arch.deb"
